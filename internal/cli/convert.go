package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"karpenter/api/convert"
)

// maxInput bounds a single file, so that a wrong path does not fill the memory. The largest manifests are exports of whole
// clusters and stay far below.
const maxInput = 64 << 20

// conversion is a run of the convert command.
type conversion struct {
	files     []string
	recursive bool
	offline   convert.Offline
}

// NewConvert returns the command that rewrites manifests of older API versions.
func NewConvert() *cobra.Command {
	c := &conversion{}
	cmd := &cobra.Command{
		Use:   "convert -f FILE|DIRECTORY|-",
		Short: "Rewrite manifests of older API versions as v1",
		Long: `Rewrite manifests of older API versions as v1 and print them.

NodePool, NodeClaim and EC2NodeClass of v1beta1, Provisioner of v1alpha5 and AWSNodeTemplate of v1alpha1 are converted; their
comments are lost. Every other document is printed exactly as it is. What has another meaning than before is said on
standard error. Give everything that belongs together in one run: kubelet settings move from a NodePool to its EC2NodeClass
only if both are in the input.`,
		Example: `  karpenter convert -f old.yaml > new.yaml
  karpenter convert -f manifests/ -R | kubectl apply -f -
  kubectl get nodepools.v1beta1.karpenter.sh -o yaml | karpenter convert -f -`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	cmd.Flags().StringArrayVarP(&c.files, "filename", "f", nil, "file or directory to convert, or - for standard input; may be given several times")
	cmd.Flags().BoolVarP(&c.recursive, "recursive", "R", false, "also convert what is in directories below a directory")
	cmd.Flags().StringVar(&c.offline.Version, "output-version", "v1", "version to convert to: v1, or v1beta1 for the way back")
	cmd.Flags().StringVar(&c.offline.InstanceProfile, "instance-profile", "", "instance profile for an AWSNodeTemplate that names none")
	return cmd
}

func (c *conversion) run(cmd *cobra.Command) error {
	if len(c.files) == 0 {
		return errors.New("nothing to convert: give files or directories with -f, or -f - for standard input")
	}
	if c.offline.Version != "v1" && c.offline.Version != "v1beta1" {
		return fmt.Errorf("--output-version %q: must be v1 or v1beta1", c.offline.Version)
	}
	failures := 0
	fail := func(err error) {
		failures++
		fmt.Fprintln(cmd.ErrOrStderr(), "error:", strings.Join(strings.Fields(err.Error()), " "))
	}
	documents := c.read(cmd.InOrStdin(), fail)
	objects := make([]map[string]any, len(documents))
	for i, d := range documents {
		d.err = d.decode()
		objects[i] = d.object
	}
	for i, outcome := range c.offline.Convert(objects) {
		d := documents[i]
		d.converted = outcome.Objects
		if d.err == nil && outcome.Err != nil {
			d.err = fmt.Errorf("%s: %w", d.place(), outcome.Err)
		}
		for _, warning := range outcome.Warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", d, warning)
		}
		if d.err != nil {
			fail(d.err)
		}
	}
	if err := write(cmd.OutOrStdout(), documents); err != nil {
		return err
	}
	if failures > 0 {
		return fmt.Errorf("could not convert %d of %s; only the others are printed", failures, count(max(len(documents), failures), "object", "objects"))
	}
	return nil
}

// read returns the documents of all files; what cannot be read is told to fail.
func (c *conversion) read(stdin io.Reader, fail func(error)) []*document {
	var documents []*document
	for _, name := range c.files {
		files, err := c.expand(name)
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("%s: holds no .yaml, .yml or .json file; -R looks further down", name)
		}
		if err != nil {
			fail(err)
		}
		for _, file := range files {
			found, err := readFile(file, stdin)
			if err != nil {
				fail(err)
			}
			documents = append(documents, found...)
		}
	}
	return documents
}

// expand returns the files that a name stands for, in order.
func (c *conversion) expand(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	var files []string
	err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !c.recursive:
			return fs.SkipDir
		case !entry.IsDir() && (path == name || isManifest(path)):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

func readFile(name string, stdin io.Reader) ([]*document, error) {
	if name == "-" {
		return readDocuments("standard input", stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readDocuments(name, file)
}

func isManifest(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// document is one document of a YAML stream.
type document struct {
	source string
	index  int    // from 1
	raw    []byte // all of it, with the line that separates it from the one before
	line   int    // how many lines come before it
	object map[string]any
	err    error
	// converted take its place; none if it is printed as it is.
	converted []map[string]any
}

// place says where the document is.
func (d *document) place() string { return fmt.Sprintf("%s: document %d", d.source, d.index) }

func (d *document) String() string {
	kind, _ := d.object["kind"].(string)
	metadata, _ := d.object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" {
		return fmt.Sprintf("%s: %s", d.place(), kind)
	}
	return fmt.Sprintf("%s: %s %q", d.place(), kind, name)
}

func readDocuments(source string, in io.Reader) ([]*document, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", source, err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("%s: is larger than %d MiB", source, maxInput>>20)
	}
	var documents []*document
	line := 0
	for _, raw := range split(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		documents = append(documents, &document{source: source, index: len(documents) + 1, raw: raw, line: line})
		line += bytes.Count(raw, []byte("\n"))
	}
	return documents, nil
}

// split cuts a YAML stream before each line that begins with three dashes. In YAML such a line always begins a document, also
// within a block of text.
func split(data []byte) [][]byte {
	var out [][]byte
	start := 0
	for at := 0; at < len(data); {
		if at > start && separates(data[at:]) && len(bytes.TrimSpace(data[start:at])) > 0 {
			out = append(out, data[start:at])
			start = at
		}
		next := bytes.IndexByte(data[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	if len(bytes.TrimSpace(data[start:])) > 0 {
		out = append(out, data[start:])
	}
	return out
}

func separates(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0)
}

// decode reads the document if it is an object. Only one that will be converted must be free of duplicate keys.
func (d *document) decode() error {
	value, err := decodeYAML(d.raw, yaml.YAMLToJSON)
	if err == nil {
		d.object, _ = value.(map[string]any)
		if apiVersion, _ := d.object["apiVersion"].(string); strings.HasPrefix(apiVersion, "karpenter.") {
			_, err = decodeYAML(d.raw, yaml.YAMLToJSONStrict)
		}
	}
	if err == nil {
		return nil
	}
	d.object = nil
	// Once more with the lines that come before, so that the line in the message is the line in the file.
	if _, again := decodeYAML(append(bytes.Repeat([]byte("\n"), d.line), d.raw...), yaml.YAMLToJSONStrict); again != nil {
		err = again
	}
	return fmt.Errorf("%s: %w", d.place(), err)
}

func decodeYAML(raw []byte, toJSON func([]byte) ([]byte, error)) (any, error) {
	text, err := toJSON(raw)
	if err != nil {
		return nil, err
	}
	var value any
	return value, json.Unmarshal(text, &value)
}

// write prints the documents in order, each separated from the one before.
func write(out io.Writer, documents []*document) error {
	var text bytes.Buffer
	for _, d := range documents {
		if d.err != nil {
			continue
		}
		if text.Len() > 0 && text.Bytes()[text.Len()-1] != '\n' {
			text.WriteByte('\n')
		}
		if text.Len() > 0 && !separates(d.raw) {
			text.WriteString("---\n")
		}
		if len(d.converted) == 0 {
			text.Write(d.raw)
			continue
		}
		for i, object := range d.converted {
			if i > 0 || separates(d.raw) {
				text.WriteString("---\n")
			}
			manifest, err := yaml.Marshal(object)
			if err != nil {
				return fmt.Errorf("%s: printing it: %w", d, err)
			}
			text.Write(manifest)
		}
	}
	_, err := out.Write(text.Bytes())
	return err
}
