package userdata

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"
)

// instance is what an instance learns from its user data.
type instance struct {
	Cluster, Endpoint, CA string
	DNS                   []string
	Labels                map[string]string
	Taints                []string // sorted, key=value:effect
	// Settings has the kubelet's other settings by flag name, values as text, maps as sorted pairs.
	Settings map[string]string
	RAID0    bool
}

// decode boots an instance of the family.
func decode(t testing.TB, family Family, text string) instance {
	t.Helper()
	var b instance
	switch family {
	case AL2:
		parts := decodeArchive(t, text)
		b = decodeShell(t, parts[len(parts)-1].content)
	case AL2023:
		parts := decodeArchive(t, text)
		b = decodeNodeConfig(t, parts[len(parts)-1].content)
	case Bottlerocket:
		b = decodeTOML(t, text)
	default:
		b = decodePowerShell(t, text)
	}
	slices.Sort(b.Taints)
	return b
}

// wantBoot is what the instance should learn.
func wantBoot(o Options) instance {
	b := instance{
		Cluster: o.ClusterName, Endpoint: o.Endpoint, CA: o.CABundle, DNS: o.Kubelet.ClusterDNS,
		Labels: o.joinLabels(), Settings: map[string]string{}, RAID0: o.InstanceStore == RAID0,
	}
	for _, taint := range o.joinTaints() {
		b.Taints = append(b.Taints, taint.Key+"="+taint.Value+":"+taint.Effect)
	}
	slices.Sort(b.Taints)
	k := o.Kubelet
	for name, number := range map[string]*int32{
		"max-pods": k.MaxPods, "pods-per-core": k.PodsPerCore, "eviction-max-pod-grace-period": k.EvictionMaxPodGracePeriod,
		"image-gc-high-threshold": k.ImageGCHighThresholdPercent, "image-gc-low-threshold": k.ImageGCLowThresholdPercent,
	} {
		if number != nil {
			b.Settings[name] = fmt.Sprint(*number)
		}
	}
	if k.CPUCFSQuota != nil {
		b.Settings["cpu-cfs-quota"] = fmt.Sprint(*k.CPUCFSQuota)
	}
	for name, values := range map[string]map[string]string{
		"system-reserved": k.SystemReserved, "kube-reserved": k.KubeReserved, "eviction-hard": k.EvictionHard,
		"eviction-soft": k.EvictionSoft, "eviction-soft-grace-period": graces(k.EvictionSoftGracePeriod),
	} {
		if len(values) > 0 {
			b.Settings[name] = pairs(values, "=")
		}
	}
	return b
}

type decodedPart struct{ contentType, content string }

// decodeArchive reads an archive with the packages that nodeadm uses.
func decodeArchive(t testing.TB, text string) []decodedPart {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("not a message: %v\n%s", err, text)
	}
	media, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || media != "multipart/mixed" {
		t.Fatalf("content type is %q (%v)", media, err)
	}
	reader := multipart.NewReader(message.Body, parameters["boundary"])
	var parts []decodedPart
	for {
		p, err := reader.NextRawPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatalf("part %d: %v\n%s", len(parts), err, text)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			t.Fatalf("part %d: %v\n%s", len(parts), err, text)
		}
		parts = append(parts, decodedPart{p.Header.Get("Content-Type"), string(content)})
	}
}

// decodeShell follows what /etc/eks/bootstrap.sh does with its arguments.
func decodeShell(t testing.TB, script string) instance {
	t.Helper()
	body, is := strings.CutPrefix(script, preamble)
	if !is {
		t.Fatalf("script does not begin with the preamble:\n%s", script)
	}
	words, err := shellWords(body)
	if err != nil || len(words) < 2 || words[0] != "/etc/eks/bootstrap.sh" {
		t.Fatalf("not one call of bootstrap.sh (%v): %q\n%s", err, words, script)
	}
	b := instance{Cluster: words[1]}
	useMaxPods := "true"
	for i := 2; i+1 < len(words); i += 2 {
		switch value := words[i+1]; words[i] {
		case "--apiserver-endpoint":
			b.Endpoint = value
		case "--b64-cluster-ca":
			b.CA = value
		case "--dns-cluster-ip":
			b.DNS = strings.Split(value, ",")
		case "--ip-family":
			if value != "ipv6" || !strings.Contains(body, "::") {
				t.Errorf("--ip-family %s", value)
			}
		case "--use-max-pods":
			useMaxPods = value
		case "--kubelet-extra-args":
			b.readFlags(t, value)
		case "--local-disks":
			b.RAID0 = value == "raid0"
		default:
			t.Fatalf("bootstrap.sh knows no argument %q", words[i])
		}
	}
	if _, has := b.Settings["max-pods"]; has == (useMaxPods == "true") {
		t.Errorf("--use-max-pods is %s and --max-pods given is %v", useMaxPods, has)
	}
	return b
}

// readFlags splits arguments as systemd does, then as the kubelet does.
func (b *instance) readFlags(t testing.TB, args string) {
	t.Helper()
	words, err := shellWords(args)
	if err != nil {
		t.Fatalf("kubelet arguments %q: %v", args, err)
	}
	b.Settings = map[string]string{}
	for _, word := range words {
		name, value, is := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if !is || !strings.HasPrefix(word, "--") {
			t.Fatalf("the kubelet knows no argument %q", word)
		}
		switch name {
		case "node-labels":
			b.Labels = map[string]string{}
			for _, pair := range strings.Split(value, ",") {
				key, value, _ := strings.Cut(pair, "=")
				b.Labels[key] = value
			}
		case "register-with-taints":
			for _, taint := range strings.Split(value, ",") {
				b.Taints = append(b.Taints, normalTaint(taint))
			}
		default:
			b.Settings[name] = strings.ReplaceAll(value, "<", "=")
		}
	}
}

func normalTaint(taint string) string {
	key, effect, _ := strings.Cut(taint, ":")
	if !strings.Contains(key, "=") {
		key += "="
	}
	return key + ":" + effect
}

// decodeNodeConfig reads a NodeConfig with the YAML package that nodeadm uses.
func decodeNodeConfig(t testing.TB, text string) instance {
	t.Helper()
	var config struct {
		APIVersion, Kind string
		Spec             struct {
			Cluster  struct{ Name, APIServerEndpoint, CertificateAuthority, CIDR string }
			Instance struct{ LocalStorage struct{ Strategy string } }
			Kubelet  struct {
				Config map[string]any
				Flags  []string
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatalf("not a NodeConfig: %v\n%s", err, text)
	}
	if config.APIVersion != "node.eks.aws/v1alpha1" || config.Kind != "NodeConfig" || config.Spec.Cluster.CIDR == "" {
		t.Errorf("type %s %s, range %q", config.APIVersion, config.Kind, config.Spec.Cluster.CIDR)
	}
	var b instance
	b.readFlags(t, strings.Join(config.Spec.Kubelet.Flags, " "))
	cluster := config.Spec.Cluster
	b.Cluster, b.Endpoint, b.CA, b.RAID0 = cluster.Name, cluster.APIServerEndpoint, cluster.CertificateAuthority, config.Spec.Instance.LocalStorage.Strategy == "RAID0"
	names := map[string]string{
		"maxPods": "max-pods", "podsPerCore": "pods-per-core", "systemReserved": "system-reserved", "kubeReserved": "kube-reserved",
		"evictionHard": "eviction-hard", "evictionSoft": "eviction-soft", "evictionSoftGracePeriod": "eviction-soft-grace-period",
		"evictionMaxPodGracePeriod": "eviction-max-pod-grace-period", "imageGCHighThresholdPercent": "image-gc-high-threshold",
		"imageGCLowThresholdPercent": "image-gc-low-threshold", "cpuCFSQuota": "cpu-cfs-quota",
	}
	for _, field := range slices.Sorted(maps.Keys(config.Spec.Kubelet.Config)) {
		value := config.Spec.Kubelet.Config[field]
		switch field {
		case "clusterDNS":
			for _, address := range value.([]any) {
				b.DNS = append(b.DNS, address.(string))
			}
		case "registerWithTaints":
			for _, item := range value.([]any) {
				taint := item.(map[string]any)
				text, _ := taint["value"].(string)
				b.Taints = append(b.Taints, fmt.Sprintf("%s=%s:%s", taint["key"], text, taint["effect"]))
			}
		default:
			name, known := names[field]
			if !known {
				name = field
			}
			b.Settings[name] = settingText(t, value)
		}
	}
	return b
}

// settingText writes a decoded value in the way of instance.Settings.
func settingText(t testing.TB, value any) string {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		texts := map[string]string{}
		for key, item := range value {
			texts[key] = settingText(t, item)
		}
		return pairs(texts, "=")
	case string:
		return value
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decodeTOML(t testing.TB, text string) instance {
	t.Helper()
	var root map[string]any
	if err := toml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatalf("not TOML: %v\n%s", err, text)
	}
	settings := root["settings"].(map[string]any)
	b := instance{Settings: map[string]string{}, Labels: map[string]string{}}
	if commands, has := settings["bootstrap-commands"]; has {
		_, b.RAID0 = commands.(map[string]any)[mountCommand]
	}
	names := map[string]string{
		"image-gc-high-threshold-percent": "image-gc-high-threshold", "image-gc-low-threshold-percent": "image-gc-low-threshold",
		"cpu-cfs-quota-enforced": "cpu-cfs-quota",
	}
	for key, value := range settings["kubernetes"].(map[string]any) {
		switch key {
		case "cluster-name":
			b.Cluster = value.(string)
		case "api-server":
			b.Endpoint = value.(string)
		case "cluster-certificate":
			b.CA = value.(string)
		case "cluster-dns-ip":
			b.DNS = texts(value)
		case "node-labels":
			for name, text := range value.(map[string]any) {
				b.Labels[name] = text.(string)
			}
		case "node-taints":
			for name, list := range value.(map[string]any) {
				for _, taint := range texts(list) {
					b.Taints = append(b.Taints, name+"="+taint)
				}
			}
		default:
			name, known := names[key]
			if !known {
				name = key
			}
			b.Settings[name] = settingText(t, value)
		}
	}
	return b
}

// texts is a list of strings, or one string as a list.
func texts(value any) []string {
	if text, is := value.(string); is {
		return []string{text}
	}
	var list []string
	for _, item := range value.([]any) {
		list = append(list, item.(string))
	}
	return list
}

func decodePowerShell(t testing.TB, text string) instance {
	t.Helper()
	block, is := strings.CutPrefix(text, "<powershell>\n")
	block, closed := strings.CutSuffix(block, "\n</powershell>\n")
	if !is || !closed || strings.Contains(block, "powershell>") {
		t.Fatalf("not one PowerShell block:\n%s", text)
	}
	lines := strings.Split(block, "\n")
	call, is := strings.CutPrefix(lines[len(lines)-1], "& $EKSBootstrapScriptFile ")
	if !is {
		t.Fatalf("last line does not call the script:\n%s", text)
	}
	var b instance
	for call != "" {
		name, rest, _ := strings.Cut(call, " '")
		value, after, err := powershellString(rest)
		if err != nil {
			t.Fatalf("%v in %s", err, call)
		}
		switch name {
		case "-EKSClusterName":
			b.Cluster = value
		case "-APIServerEndpoint":
			b.Endpoint = value
		case "-Base64ClusterCA":
			b.CA = value
		case "-DNSClusterIP":
			b.DNS = []string{value}
		case "-KubeletExtraArgs":
			b.readFlags(t, value)
		default:
			t.Fatalf("the script knows no parameter %q", name)
		}
		call = strings.TrimPrefix(after, " ")
	}
	return b
}
