package userdata

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Both families of Amazon Linux: the user's parts first, in their order, ours last.
func Test1_7_AL2_MergesUserParts(t *testing.T) {
	checkMerge(t, AL2, `text/x-shellscript; charset="us-ascii"`)
}

func Test1_7_AL2023_MergesUserParts(t *testing.T) {
	checkMerge(t, AL2023, "application/node.eks.aws")
}

func checkMerge(t *testing.T, family Family, ours string) {
	t.Helper()
	ascii := `text/x-shellscript; charset="us-ascii"`
	for name, c := range map[string]struct {
		text string
		want []decodedPart
	}{
		"none":           {"", nil},
		"only blanks":    {" \n\t\r\n", nil},
		"script":         {"#!/bin/sh\nls\n", []decodedPart{{ascii, "#!/bin/sh\nls\n"}}},
		"script below":   {"\n \n  #!/bin/sh\nls", []decodedPart{{ascii, "#!/bin/sh\nls"}}},
		"script in UTF8": {"#!/bin/sh\necho é", []decodedPart{{`text/x-shellscript; charset="utf-8"`, "#!/bin/sh\necho é"}}},
		"commands":       {"echo hi", []decodedPart{{ascii, "#!/bin/bash\necho hi"}}},
		"commands after a remark": {
			"# a remark\necho hi", []decodedPart{{ascii, "#!/bin/bash\n# a remark\necho hi"}},
		},
		"commands in braces":    {"{ ls; } > /tmp/x", []decodedPart{{ascii, "#!/bin/bash\n{ ls; } > /tmp/x"}}},
		"cloud config":          {"#cloud-config\na: b", []decodedPart{{"text/cloud-config", "#cloud-config\na: b"}}},
		"cloud config archive":  {"#cloud-config-archive\n- a", []decodedPart{{"text/cloud-config-archive", "#cloud-config-archive\n- a"}}},
		"boot hook":             {"#cloud-boothook\nls", []decodedPart{{"text/cloud-boothook", "#cloud-boothook\nls"}}},
		"include":               {"#include\nhttps://a", []decodedPart{{"text/x-include-url", "#include\nhttps://a"}}},
		"template":              {"## template: jinja\n#cloud-config", []decodedPart{{"text/jinja2", "## template: jinja\n#cloud-config"}}},
		"archive":               {userArchive, []decodedPart{{ascii, "#!/bin/bash\necho \"Running custom user data script\"\n"}}},
		"archive with CRs":      {strings.ReplaceAll(userArchive, "\n", "\r\n"), []decodedPart{{ascii, "#!/bin/bash\necho \"Running custom user data script\"\n"}}},
		"archive below":         {"\n\n" + userArchive, []decodedPart{{ascii, "#!/bin/bash\necho \"Running custom user data script\"\n"}}},
		"archive not closed":    {strings.TrimSuffix(userArchive, "\n--BOUNDARY--"), []decodedPart{{ascii, "#!/bin/bash\necho \"Running custom user data script\"\n"}}},
		"archive in small":      {"content-type: Multipart/Mixed; boundary=B\n\n--B \ncontent-type: text/x\n\na\n--B--\t\nx", []decodedPart{{"text/x", "a"}}},
		"archive with untyped":  {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nls\n--B--", []decodedPart{{"", "ls"}}},
		"archive of two":        {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/a\n\n1\n--B\nContent-Type: text/b;\n charset=x\n\n2\n--B--", []decodedPart{{"text/a", "1"}, {"text/b; charset=x", "2"}}},
		"archive of nothing":    {"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\n--B--", nil},
		"script with our lines": {"#!/bin/sh\ncat <<E\n--//\n--//--\n--karpenter-1x\nE\n", []decodedPart{{ascii, "#!/bin/sh\ncat <<E\n--//\n--//--\n--karpenter-1x\nE\n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			text := mustRender(t, family, withUserData(c.text))
			if strings.Contains(text, "\r") {
				t.Errorf("has carriage returns: %q", text)
			}
			parts := decodeArchive(t, text)
			last := parts[len(parts)-1]
			if last.contentType != ours {
				t.Errorf("last part is %s, want %s", last.contentType, ours)
			}
			if diff := cmp.Diff(fmt.Sprint(c.want), fmt.Sprint(parts[:len(parts)-1])); diff != "" {
				t.Errorf("user's parts (-want +got):\n%s", diff)
			}
		})
	}
}

func Test1_7_AL2023_TakesNodeConfigs(t *testing.T) {
	for name, text := range map[string]string{
		"yaml":            userNodeConfig,
		"yaml below":      "\n\n" + userNodeConfig,
		"yaml document":   "---\n" + userNodeConfig,
		"yaml remarks":    "# mine\n%YAML 1.2\n---\n" + userNodeConfig,
		"yaml indented":   "  apiVersion: node.eks.aws/v1alpha1\n  kind: NodeConfig\n  spec: {}",
		"yaml quoted":     "\"kind\": \"NodeConfig\" # it is\n'apiVersion' : 'node.eks.aws/v1alpha1'",
		"yaml with CRs":   strings.ReplaceAll(userNodeConfig, "\n", "\r\n"),
		"yaml spec first": "spec:\n  cluster: {}\n  containerd:\n    config: |\n      [plugins]\n      \ttabs = true\nkind: NodeConfig\napiVersion: node.eks.aws/v1alpha1",
		"json":            "{\n  \"kind\": \"NodeConfig\", \"apiVersion\": \"node.eks.aws/v1alpha1\"}",
		"json remarks":    "# { mine\n{\"kind\": \"NodeConfig\", \"apiVersion\": \"node.eks.aws/v1alpha1\"}\n",
	} {
		t.Run(name, func(t *testing.T) {
			parts := decodeArchive(t, mustRender(t, AL2023, withUserData(text)))
			want := strings.ReplaceAll(strings.TrimLeft(text, "\n"), "\r", "")
			if len(parts) != 2 || parts[0].contentType != "application/node.eks.aws" || parts[0].content != want {
				t.Errorf("parts are %+v", parts[:len(parts)-1])
			}
		})
	}
}

// AL2 has nothing that reads a NodeConfig: it is a script there, as it is in upstream Karpenter.
func Test1_7_AL2_KnowsNoNodeConfig(t *testing.T) {
	parts := decodeArchive(t, mustRender(t, AL2, withUserData(userNodeConfig)))
	if parts[0].contentType != `text/x-shellscript; charset="us-ascii"` {
		t.Errorf("type is %s", parts[0].contentType)
	}
}

func Test1_7_Bottlerocket_MergesSettings(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // a line that must be there
		gone string // text that must not be there
	}{
		"ours over theirs":     {"[settings.kubernetes]\ncluster-name = 'theirs'", "cluster-name = 'test-cluster'", "theirs"},
		"theirs where we are":  {"[settings.kubernetes]\ncloud-provider = 'external'", "cloud-provider = 'external'", ""},
		"other settings":       {"[settings.ntp]\ntime-servers = ['a']", "time-servers = ['a']", ""},
		"dotted keys":          {"settings.kubernetes.node-labels.mine = 'yes'", "mine = 'yes'", ""},
		"inline tables":        {"settings = {kubernetes = {node-labels = {mine = 'yes'}}}", "mine = 'yes'", ""},
		"ours of equal labels": {"[settings.kubernetes.node-labels]\n\"karpenter.sh/nodepool\" = 'theirs'", "'karpenter.sh/nodepool' = 'default'", "theirs"},
		"taints are ours":      {"[settings.kubernetes.node-taints]\ntheirs = ['a:NoSchedule']", "dedicated = ['batch:NoSchedule']", "theirs"},
		"unknown ones go":      {"[settings.kubernetes]\nunknown = 1\nlog-level = 3", "log-level = 3", "unknown"},
		"other tables go":      {"[other]\na = 1", "cluster-name = 'test-cluster'", "other"},
		"new ones stay":        {"[settings.kubernetes.memory-manager-reserved-memory.0]\nenabled = true\nmemory = '1Gi'", "[settings.kubernetes.memory-manager-reserved-memory.0]", ""},
		"bare commands":        {"[settings.bootstrap-commands.a]\ncommands = [['apiclient', 'set', \"motd=it's\"]]", `commands = [['apiclient', 'set', "motd=it's"]]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := mustRender(t, Bottlerocket, withUserData(c.text))
			if !strings.Contains("\n"+text, "\n"+c.want+"\n") {
				t.Errorf("no line %q in:\n%s", c.want, text)
			}
			if c.gone != "" && strings.Contains(text, c.gone) {
				t.Errorf("%q is still in:\n%s", c.gone, text)
			}
		})
	}
}

func Test1_7_Bottlerocket_TellsWhatIsLeftOut(t *testing.T) {
	var text strings.Builder
	text.WriteString("top = 1\n[settings.kubernetes]\n")
	for i := range 30 {
		fmt.Fprintf(&text, "unknown-%02d = %d\n", i, i)
	}
	doc, err := Render(Bottlerocket, withUserData(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Ignored) != maxIgnored+1 {
		t.Fatalf("%d sentences, want %d", len(doc.Ignored), maxIgnored+1)
	}
	for i, want := range []string{"line 1: top ", "line 3: settings.kubernetes.unknown-00 "} {
		if !strings.Contains(doc.Ignored[i], want) {
			t.Errorf("%q does not say %q", doc.Ignored[i], want)
		}
	}
}

func Test1_7_Windows_UserCommandsComeFirst(t *testing.T) {
	text := mustRender(t, Windows2022, withUserData("Write-Host \"a\"\nWrite-Host 'b'\r\n\r\n"))
	want := "<powershell>\nWrite-Host \"a\"\nWrite-Host 'b'\n[string]$EKSBootstrapScriptFile = "
	if !strings.HasPrefix(text, want) {
		t.Errorf("begins with %q, want %q", text[:min(len(text), len(want))], want)
	}
}
