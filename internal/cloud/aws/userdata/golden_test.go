package userdata

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// goldens has one case per file in testdata: every family, every setting, every form of the user's own data.
func goldens() map[string]struct {
	family Family
	o      Options
} {
	raid0 := func(o *Options) { o.InstanceStore = RAID0 }
	v6 := func(o *Options) {
		o.ServiceCIDR, o.Kubelet.ClusterDNS = "fd30:1c53:5f8a::/108", []string{"fd30:1c53:5f8a::a"}
	}
	twoDNS := func(o *Options) { o.Kubelet.ClusterDNS = []string{"10.100.0.10", "10.100.0.11"} }
	bare := Options{ClusterName: "c", Endpoint: "https://c", ServiceCIDR: "10.0.0.0/8"}
	taints := with(basic(), func(o *Options) {
		o.Taints = []Taint{
			{"team", "a", "NoExecute"},
			{"team", "b", "NoSchedule"},
			{"flag", "", "PreferNoSchedule"},
			{"team", "c", "NoExecute"}, // the same key and effect as the first
			{"karpenter.sh/unregistered", "", "NoExecute"},
		}
	})
	extra := with(withKubelet(basic()), func(o *Options) {
		o.Kubelet.Extra = map[string]string{
			"featureGates": `{"A":true,"B":false}`, "shutdownGracePeriod": `"45s"`, "topologyManagerPolicy": `"best-effort"`,
			"registryPullQPS": `0`, "tlsCipherSuites": `[]`, "reservedMemory": `[{"limits":{"memory":"1Gi"},"numaNode":0}]`, "logging": `{}`,
		}
	})
	cases := map[string]struct {
		family Family
		o      Options
	}{
		"al2":                 {AL2, basic()},
		"al2-bare":            {AL2, bare},
		"al2-taints":          {AL2, taints},
		"al2-kubelet":         {AL2, withKubelet(basic())},
		"al2-raid0":           {AL2, with(basic(), raid0)},
		"al2-ipv6":            {AL2, with(basic(), v6)},
		"al2-two-dns":         {AL2, with(basic(), twoDNS)},
		"al2-user-script":     {AL2, withUserData("#!/bin/bash\necho \"Running custom user data script\"\n")},
		"al2-user-commands":   {AL2, withUserData("echo \"Hello world\"\n")},
		"al2-user-config":     {AL2, withUserData("#cloud-config\nruncmd:\n- [ls, -l]\n")},
		"al2-user-archive":    {AL2, withUserData(userArchive)},
		"al2-user-encoded":    {AL2, withUserData(encodedArchive)},
		"al2-user-nested":     {AL2, withUserData(nestedArchive)},
		"al2023":              {AL2023, basic()},
		"al2023-bare":         {AL2023, bare},
		"al2023-taints":       {AL2023, taints},
		"al2023-kubelet":      {AL2023, withKubelet(basic())},
		"al2023-extra":        {AL2023, extra},
		"al2023-raid0":        {AL2023, with(basic(), raid0)},
		"al2023-ipv6":         {AL2023, with(basic(), v6)},
		"al2023-user-script":  {AL2023, withUserData("#!/bin/bash\necho \"Hello, AL2023!\"\n")},
		"al2023-user-yaml":    {AL2023, withUserData(userNodeConfig)},
		"al2023-user-json":    {AL2023, withUserData(`{"apiVersion":"node.eks.aws/v1alpha1","kind":"NodeConfig","spec":{"featureGates":{"InstanceIdNodeName":true}}}`)},
		"al2023-user-archive": {AL2023, withUserData(mixedArchive)},
		"bottlerocket":        {Bottlerocket, basic()},
		"bottlerocket-bare":   {Bottlerocket, bare},
		"bottlerocket-taints": {Bottlerocket, taints},
		"bottlerocket-kubelet": {
			Bottlerocket, withBottlerocketKubelet(basic()),
		},
		"bottlerocket-raid0-1.45":   {Bottlerocket, with(with(basic(), raid0), func(o *Options) { o.AMIVersion = "1.45.9" })},
		"bottlerocket-raid0-1.46":   {Bottlerocket, with(with(basic(), raid0), func(o *Options) { o.AMIVersion = "v1.46.0" })},
		"bottlerocket-two-dns":      {Bottlerocket, with(basic(), twoDNS)},
		"bottlerocket-user":         {Bottlerocket, withUserData(userSettings)},
		"bottlerocket-user-kubelet": {Bottlerocket, with(withBottlerocketKubelet(withUserData(userSettings)), raid0)},
		"windows":                   {Windows2022, basic()},
		"windows-bare":              {Windows2022, bare},
		"windows-kubelet":           {Windows2022, withKubelet(basic())},
		"windows-user":              {Windows2022, withUserData("Write-Host \"Running custom user data script\"\n")},
		"custom-user":               {Custom, withUserData("anything\r\n\tat all")},
		"custom":                    {Custom, basic()},
	}
	return cases
}

func Test1_7_Golden(t *testing.T) {
	seen := map[string]bool{}
	for name, c := range goldens() {
		seen[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			doc, err := Render(c.family, c.o)
			if err != nil {
				t.Fatal(err)
			}
			got := doc.Text
			for _, sentence := range doc.Ignored {
				got += "ignored: " + sentence + "\n"
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("user data (-want +got):\n%s", diff)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !seen[filepath.Base(file)] {
			t.Errorf("%s belongs to no case", file)
		}
	}
}

// Every golden case must also boot with what was asked for.
func Test1_7_Golden_Boots(t *testing.T) {
	for name, c := range goldens() {
		if c.family == Custom {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got, want := decode(t, c.family, mustRender(t, c.family, c.o)), wantBoot(c.o)
			if strings.Contains(name, "user") || strings.Contains(name, "extra") {
				// The user's own settings come on top; ours must be there among them.
				for key, value := range got.Settings {
					if _, has := want.Settings[key]; !has {
						want.Settings[key] = value
					}
				}
				for key, value := range got.Labels {
					if _, has := want.Labels[key]; !has {
						want.Labels[key] = value
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("instance (-want +got):\n%s", diff)
			}
		})
	}
}

// encodedArchive has a part whose content only its headers can explain, as Terraform writes them.
const encodedArchive = `Content-Type: multipart/mixed;
 boundary=MIMEBOUNDARY
MIME-Version: 1.0

text before the first boundary is for people

--MIMEBOUNDARY
Content-Transfer-Encoding: base64
Content-Type: text/cloud-config
Mime-Version: 1.0
X-Merge-Type: list(append)+dict(recurse_array)+str()

I2Nsb3VkLWNvbmZpZwpydW5jbWQ6IFtsc10K
--MIMEBOUNDARY
Content-Type: text/x-shellscript

#!/bin/sh
ls
--MIMEBOUNDARY--
text after the last boundary too
`

// nestedArchive has an archive within, with the boundary that ours has.
const nestedArchive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=outer

--outer
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript

#!/bin/sh
ls
--//--
--outer--
`

// mixedArchive lacks its last boundary, as an example in upstream's documentation does.
const mixedArchive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

` + userNodeConfig + `--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "Hello, AL2023!"
--//
`

const userSettings = `# what people write
stray = 1

[settings]
motd = "it's here"

[settings.kubernetes]
"unknown-setting" = "unknown"
api-server = 'replaced'
cloud-provider = 'external'
max-pods = 9_999 # replaced
image-gc-high-threshold-percent = 70
cluster-domain = "cluster.local"

[settings.kubernetes.eviction-hard]
"memory.available" = "12%"
"nodefs.inodesFree" = "5%"

[settings.kubernetes.node-labels]
"custom-node-label" = "custom"
"karpenter.sh/nodepool" = "overridden"

[settings.kubernetes.node-taints]
"replaced" = ["me:NoSchedule"]

[settings.kubernetes.static-pods.probe]
enabled = true
manifest = """
bWFu\
    aWZlc3Q="""

[settings.network]
hosts = [["10.0.0.0", ["test.example.com", "test1.example.com"]]]
no-proxy = ["localhost", "127.0.0.1"]

[settings.bootstrap-commands.mine]
commands = [["apiclient", "get"]]
mode = "once"
essential = false

[[settings.container-registry.mirrors]]
registry = "docker.io"
endpoint = ["https://mirror.example.com"]

[settings.kernel.sysctl]
"user.max_user_namespaces" = "16384"
`
