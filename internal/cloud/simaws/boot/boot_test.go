package boot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const al2023 = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo hello
--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: c1
    apiServerEndpoint: https://x
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
  kubelet:
    config:
      maxPods: 58
      clusterDNS: [10.100.0.10]
      cpuCFSQuota: false
      registerWithTaints:
      - effect: NoExecute
        key: karpenter.sh/unregistered
      kubeReserved:
        cpu: 80m
    flags:
    - --node-labels="karpenter.sh/nodepool=default,a=b"
  instance:
    localStorage:
      strategy: RAID0
--//--
`

const al2 = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'c1' --apiserver-endpoint 'https://x' --b64-cluster-ca 'Y2E=' \
--dns-cluster-ip '10.100.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="a=b,karpenter.sh/nodepool=default" --register-with-taints="karpenter.sh/unregistered:NoExecute,x=y:NoSchedule" --max-pods=58 --eviction-hard="memory.available<5%" --kube-reserved="cpu=80m"' \
--local-disks raid0
--//--
`

const bottlerocketTOML = `# settings
[settings]
[settings.kubernetes]
api-server = 'https://x'
cluster-certificate = "Y2E="
cluster-name = "c1"
cluster-dns-ip = '10.100.0.10'
max-pods = 58
image-gc-high-threshold-percent = "85"

[settings.kubernetes.node-labels]
a = 'b'
'karpenter.sh/nodepool' = 'default'

[settings.kubernetes.node-taints]
'karpenter.sh/unregistered' = [':NoExecute']
x = ['y:NoSchedule', 'z:NoExecute']

[settings.kubernetes.kube-reserved]
cpu = '80m'
`

const windows = `<powershell>
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'c1' -APIServerEndpoint 'https://x' -Base64ClusterCA 'Y2E=' -KubeletExtraArgs '--node-labels="a=b" --max-pods=110' -DNSClusterIP '10.100.0.10'
</powershell>`

func TestDecode(t *testing.T) {
	common := Node{ClusterName: "c1", Endpoint: "https://x", CA: "Y2E=", ClusterDNS: []string{"10.100.0.10"}, MaxPods: 58}
	for _, tc := range []struct {
		name, family, in string
		edit             func(*Node)
	}{
		{"AL2023", "AL2023", al2023, func(n *Node) {
			n.ServiceCIDR, n.LocalStorage = "10.100.0.0/16", "raid0"
			n.Labels = map[string]string{"a": "b", "karpenter.sh/nodepool": "default"}
			n.Taints = []Taint{{"karpenter.sh/unregistered", "", "NoExecute"}}
			n.KubeReserved = map[string]string{"cpu": "80m"}
			n.Kubelet = map[string]string{"cpuCFSQuota": "false"}
		}},
		{"AL2", "AL2", al2, func(n *Node) {
			n.LocalStorage = "raid0"
			n.Labels = map[string]string{"a": "b", "karpenter.sh/nodepool": "default"}
			n.Taints = []Taint{{"karpenter.sh/unregistered", "", "NoExecute"}, {"x", "y", "NoSchedule"}}
			n.KubeReserved = map[string]string{"cpu": "80m"}
			n.EvictionHard = map[string]string{"memory.available": "5%"}
		}},
		{"Bottlerocket", "Bottlerocket", bottlerocketTOML, func(n *Node) {
			n.Labels = map[string]string{"a": "b", "karpenter.sh/nodepool": "default"}
			n.Taints = []Taint{{"karpenter.sh/unregistered", "", "NoExecute"}, {"x", "y", "NoSchedule"}, {"x", "z", "NoExecute"}}
			n.KubeReserved = map[string]string{"cpu": "80m"}
			n.Kubelet = map[string]string{"imageGcHighThresholdPercent": "85"}
		}},
		{"Windows", "Windows", windows, func(n *Node) {
			n.MaxPods = 110
			n.Labels = map[string]string{"a": "b"}
		}},
		{"Custom is recognised", "Custom", windows, func(n *Node) {
			n.MaxPods = 110
			n.Labels = map[string]string{"a": "b"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := common
			want.Labels, want.Kubelet = map[string]string{}, map[string]string{}
			tc.edit(&want)
			got, err := Decode(tc.family, []byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	nodeConfig := "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: c1, apiServerEndpoint: x, certificateAuthority: y, cidr: z}\n"
	for _, tc := range []struct{ name, family, in, want string }{
		{"nothing", "AL2023", " \n", "empty"},
		{"shell on AL2023", "AL2023", "#!/bin/bash\n/etc/eks/bootstrap.sh c1", "no NodeConfig"},
		{"broken YAML", "AL2023", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n\tspec: 1", "not valid YAML"},
		{"cidr missing", "AL2023", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: c1, apiServerEndpoint: x, certificateAuthority: y}\n", "cidr is missing"},
		{"reserved label", "AL2023", nodeConfig + "  kubelet:\n    flags: ['--node-labels=kubernetes.io/role=x']\n", "reserved"},
		{"bad maxPods", "AL2023", nodeConfig + "  kubelet:\n    config: {maxPods: many}\n", "must be an integer"},
		{"bad taint", "AL2023", nodeConfig + "  kubelet:\n    config:\n      registerWithTaints: [{key: a, effect: Never}]\n", "effect"},
		{"no shebang", "AL2", "/etc/eks/bootstrap.sh c1", "does not begin with #!"},
		{"no bootstrap", "AL2", "#!/bin/bash\necho hi", "no script"},
		{"open quote", "AL2", "#!/bin/bash\n/etc/eks/bootstrap.sh 'c1", "not closed"},
		{"unknown option", "AL2", "#!/bin/bash\n/etc/eks/bootstrap.sh c1 --kubelet-args x", "unknown option"},
		{"IPv6 without DNS", "AL2", "#!/bin/bash\n/etc/eks/bootstrap.sh c1 --ip-family ipv6", "--dns-cluster-ip"},
		{"YAML on Bottlerocket", "Bottlerocket", nodeConfig, "not valid TOML"},
		{"no endpoint", "Bottlerocket", "[settings.kubernetes]\ncluster-name='c'\n", "api-server is missing"},
		{"TOML twice", "Bottlerocket", "[settings.kubernetes]\na=1\na=2\n", "not valid TOML"},
		{"TOML with a table twice", "Bottlerocket", "[settings.kubernetes]\na=1\n[settings.kubernetes]\nb=2\n", "not valid TOML"},
		{"TOML that closes a table", "Bottlerocket", "settings = {}\n[settings.kubernetes]\na=1\n", "not valid TOML"},
		{"TOML with a number of none", "Bottlerocket", "[settings.kubernetes]\nmax-pods = 0110\n", "not valid TOML"},
		{"podsPerCore", "Bottlerocket", "[settings.kubernetes]\npods-per-core=2\n", "does not exist"},
		{"no block", "Windows", "echo hi", "no <powershell>"},
		{"broken MIME", "AL2", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nbroken", "malformed"},
		{"unknown", "Custom", "#!/bin/sh\ntrue", "neither"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Decode(tc.family, []byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestWindowsFamilies: a family of a year is read like Windows, so that text of
// another family is refused instead of being taken by its looks.
func TestWindowsFamilies(t *testing.T) {
	for _, family := range []string{"Windows", "Windows2019", "Windows2022", "Windows2025"} {
		n, err := Decode(family, []byte(windows))
		if err != nil || n.ClusterName != "c1" || n.MaxPods != 110 {
			t.Errorf("%s: got %+v, %v", family, n, err)
		}
		if _, err := Decode(family, []byte(al2)); err == nil || !strings.Contains(err.Error(), "no <powershell>") {
			t.Errorf("%s took a shell script: %v", family, err)
		}
	}
}

func TestSeveralDNSServers(t *testing.T) {
	n, err := Decode("AL2", []byte("#!/bin/bash\n/etc/eks/bootstrap.sh c1 --dns-cluster-ip '10.100.0.10,169.254.20.10'\n"))
	if d := cmp.Diff([]string{"10.100.0.10", "169.254.20.10"}, n.ClusterDNS); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// TestSeedUserData is what a getting-started text puts into an EC2NodeClass.
func TestSeedUserData(t *testing.T) {
	n, err := Decode("AL2", []byte("#!/bin/bash\n/etc/eks/bootstrap.sh production \\\n--container-runtime containerd\n"))
	if err != nil || n.ClusterName != "production" {
		t.Errorf("got %+v, %v", n, err)
	}
}

// TestAnchors: nodeadm's YAML may say things once.
func TestAnchors(t *testing.T) {
	n, err := Decode("AL2023", []byte(`
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: c1, apiServerEndpoint: x, certificateAuthority: y, cidr: z}
  kubelet:
    config:
      kubeReserved: &reserved {cpu: 1, memory: 1Gi}
      systemReserved: {<<: *reserved, cpu: 80m}
      maxPods: &pods 30
      podsPerCore: *pods
      registerWithTaints: [{key: a, value: b, effect: NoSchedule}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"cpu": "80m", "memory": "1Gi"}, n.SystemReserved); d != "" {
		t.Error(d)
	}
	if n.MaxPods != 30 || n.PodsPerCore != 30 || len(n.Taints) != 1 {
		t.Errorf("got %+v", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{al2023, al2, bottlerocketTOML, windows} {
		for _, family := range []string{"AL2023", "AL2", "Bottlerocket", "Windows", "Custom"} {
			f.Add(family, s)
		}
	}
	f.Fuzz(func(t *testing.T, family, text string) {
		n, err := Decode(family, []byte(text))
		if err == nil && n.ClusterName == "" {
			t.Error("a node without a cluster came out")
		}
	})
}
