package report

import (
	"bytes"
	"encoding/json"
	"io"
)

// JSON writes r in the schema xw.report/1, indented, every site of it.
func JSON(w io.Writer, r *Report) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return err
	}
	_, err := w.Write(appendVisible(nil, b.Bytes()))
	return err
}
