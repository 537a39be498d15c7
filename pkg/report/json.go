package report

import (
	"encoding/json"
	"io"
)

// JSON writes r in the schema xw.report/1, indented, every site of it.
func JSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
