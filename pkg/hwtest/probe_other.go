//go:build !(linux && amd64)

package hwtest

import (
	"errors"
	"testing"
)

func probe() error { return errors.New("they require Linux on x86-64") }

func lock(testing.TB) {}
