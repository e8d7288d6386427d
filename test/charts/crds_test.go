// Package charts holds what is shipped for installing and watching against the real tools: the charts against helm and a real API
// server, the CloudFormation template against the aws command and the AWS simulator, the alerts against the metrics that there are.
package charts

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"karpenter/api/crds"
)

var update = flag.Bool("update", false, "write the definitions and policy documents of api/crds and deploy/iam into charts and template")

const root = "../.."

func at(parts ...string) string {
	return filepath.Join(append([]string{root}, parts...)...)
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

// templated puts what depends on values into the text of a definition. A kind of several versions is converted by the webhook. The kind
// that others have too is left alone where it is theirs.
func templated(manifest string, crd *apiextensionsv1.CustomResourceDefinition) string {
	const block = `spec:
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig:
        service:
          name: {{ (.Values.webhook).serviceName | default "karpenter" }}
          namespace: {{ (.Values.webhook).serviceNamespace | default .Release.Namespace }}
          port: {{ (.Values.webhook).port | default 8443 }}
          path: /convert/%s
`
	const notes = `  annotations:
    {{- if ne (toString .Values.keep) "false" }}
    helm.sh/resource-policy: keep
    {{- end }}
    {{- with .Values.additionalAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
`
	manifest = strings.Replace(manifest, "  annotations:\n", notes, 1)
	if len(crd.Spec.Versions) > 1 {
		manifest = strings.Replace(manifest, "\nspec:\n", "\n"+fmt.Sprintf(block, crd.Spec.Names.Plural), 1)
	}
	if !strings.HasPrefix(crd.Spec.Group, "karpenter.") {
		manifest = fmt.Sprintf("{{- if include \"karpenter-crd.free\" (list . %q) }}\n%s{{- end }}\n", crd.Name, manifest)
	}
	return manifest
}

// hold compares a file with what it should be, and writes it with -update.
func hold(tb testing.TB, path, want string) {
	tb.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, read(tb, path)); d != "" {
		tb.Errorf("%s is not up to date; run: go test ./test/charts -run 'Definitions|Template' -update\n%s", path, d)
	}
}

func TestDefinitionsAreThoseOfTheAPI(t *testing.T) {
	names := map[string]bool{}
	for name, raw := range crds.Files() {
		names[name] = true
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte("{{")) {
			t.Fatalf("%s has {{ in it, which helm would read", name)
		}
		manifest := strings.TrimPrefix(string(raw), "---\n")
		hold(t, at("charts", "karpenter-crd", "templates", name), templated(manifest, crd))
		hold(t, at("charts", "karpenter", "files", name), manifest)
	}
	names["_helpers.tpl"], names["kept.yaml"] = true, true
	for _, folder := range []string{at("charts", "karpenter-crd", "templates"), at("charts", "karpenter", "files")} {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		if stray := slices.DeleteFunc(files, func(f os.DirEntry) bool { return names[f.Name()] }); len(stray) > 0 {
			t.Errorf("%s has files that are no definitions: %v", folder, stray)
		}
	}
}
