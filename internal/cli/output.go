package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// encode writes a value for programs: as json, with an indent or in one line, or as yaml.
func encode(w io.Writer, format string, value any, indent string) error {
	if format == "yaml" {
		raw, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = w.Write(raw)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", indent)
	return enc.Encode(value)
}

// forPrograms says whether an output format is one that encode writes; docs/reference/output.md says what is in it.
func forPrograms(format string) bool { return format == "json" || format == "yaml" }
