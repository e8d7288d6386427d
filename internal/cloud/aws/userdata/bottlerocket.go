package userdata

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// renderBottlerocket writes the settings of the image. Those of the user stay where we set nothing: of the same
// setting ours decides, labels are joined, and the taints are ours alone.
func renderBottlerocket(o Options) (Document, error) {
	if err := o.check(); err != nil {
		return Document{}, err
	}
	if err := o.checkBottlerocket(); err != nil {
		return Document{}, err
	}
	root, err := readTOML(o.UserData)
	if err != nil {
		return Document{}, err
	}
	var doc Document
	for _, key := range root.keys() {
		if key != "settings" {
			doc.Ignored = append(doc.Ignored, fmt.Sprintf("%s, line %d: %s is not below settings, where the image looks", fieldUserData, root.entries[key].line, short(tomlKey(key))))
			delete(root.entries, key)
		}
	}
	settings, err := root.subtable("", "settings")
	if err != nil {
		return Document{}, err
	}
	kubernetes, err := settings.subtable("settings.", "kubernetes")
	if err != nil {
		return Document{}, err
	}
	ignored, err := checkKubernetesSettings(kubernetes)
	if err != nil {
		return Document{}, err
	}
	doc.Ignored = bounded(append(doc.Ignored, ignored...))
	if err := o.setKubernetes(kubernetes); err != nil {
		return Document{}, err
	}
	if o.InstanceStore == RAID0 {
		commands, err := settings.subtable("settings.", "bootstrap-commands")
		if err != nil {
			return Document{}, err
		}
		commands.set(mountCommand, o.mountStorage())
	}
	doc.Text = writeTOML(root)
	return doc, nil
}

// maxIgnored bounds what a user is told at once; after a few the file is of another kind anyway.
const maxIgnored = 16

func bounded(sentences []string) []string {
	if more := len(sentences) - maxIgnored; more > 0 {
		return append(sentences[:maxIgnored:maxIgnored], fmt.Sprintf("%s: %d more settings are not known", fieldUserData, more))
	}
	return sentences
}

// checkBottlerocket refuses what the kubelet knows and the image's settings do not: with one wrong value the image
// takes none of its user data.
func (o *Options) checkBottlerocket() error {
	k := &o.Kubelet
	if err := k.refuseExtra(Bottlerocket); err != nil {
		return err
	}
	if k.PodsPerCore != nil {
		return &InputError{Field: "spec.kubelet.podsPerCore", Wrong: "cannot be passed on by AMI family Bottlerocket", Cure: "use maxPods"}
	}
	for _, group := range []struct {
		name     string
		reserved map[string]string
	}{{"kubeReserved", k.KubeReserved}, {"systemReserved", k.SystemReserved}} {
		for _, name := range slices.Sorted(maps.Keys(group.reserved)) {
			if name != "cpu" && name != "memory" && name != "ephemeral-storage" {
				return &InputError{Field: kubeletField(group.name, name), Wrong: "cannot be reserved with AMI family Bottlerocket", Cure: "reserve cpu, memory or ephemeral-storage"}
			}
		}
	}
	for _, group := range []struct {
		name       string
		thresholds map[string]string
	}{{"evictionHard", k.EvictionHard}, {"evictionSoft", k.EvictionSoft}} {
		for _, signal := range slices.Sorted(maps.Keys(group.thresholds)) {
			percent, is := strings.CutSuffix(group.thresholds[signal], "%")
			if number, err := strconv.ParseFloat(percent, 64); is && (err != nil || number >= 100) {
				return &InputError{Field: kubeletField(group.name, signal), Wrong: quoted(percent+"%") + " is refused by AMI family Bottlerocket", Cure: "give less than 100%"}
			}
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoftGracePeriod)) {
		if grace := k.EvictionSoftGracePeriod[signal]; grace > 0 && grace < time.Millisecond {
			return &InputError{Field: kubeletField("evictionSoftGracePeriod", signal), Wrong: quoted(grace.String()) + " is refused by AMI family Bottlerocket", Cure: "give a millisecond or more"}
		}
	}
	return nil
}

// setKubernetes writes what Karpenter decides over what the user's data has.
func (o *Options) setKubernetes(kubernetes *tomlTable) error {
	kubernetes.set("cluster-name", o.ClusterName)
	kubernetes.set("api-server", o.Endpoint)
	if o.CABundle != "" {
		kubernetes.set("cluster-certificate", o.CABundle)
	}
	switch dns := o.Kubelet.ClusterDNS; len(dns) {
	case 0:
	case 1:
		kubernetes.set("cluster-dns-ip", dns[0])
	default:
		kubernetes.set("cluster-dns-ip", anys(dns))
	}
	labels, err := kubernetes.subtable("settings.kubernetes.", "node-labels")
	if err != nil {
		return err
	}
	for key, value := range o.joinLabels() {
		labels.set(key, value)
	}
	taints := newTOMLTable(tomlHeader)
	for _, taint := range o.joinTaints() {
		effects, _ := taints.entries[taint.Key].value.([]any)
		taints.set(taint.Key, append(effects, taint.Value+":"+taint.Effect))
	}
	kubernetes.set("node-taints", taints)
	o.Kubelet.setSettings(kubernetes)
	return nil
}

// setSettings writes spec.kubelet in the image's names. A table replaces the user's as a whole.
func (k *Kubelet) setSettings(kubernetes *tomlTable) {
	for key, values := range map[string]map[string]string{
		"system-reserved": k.SystemReserved, "kube-reserved": k.KubeReserved, "eviction-hard": k.EvictionHard,
		"eviction-soft": k.EvictionSoft, "eviction-soft-grace-period": graces(k.EvictionSoftGracePeriod),
	} {
		if len(values) > 0 {
			table := newTOMLTable(tomlHeader)
			for name, value := range values {
				table.set(name, value)
			}
			kubernetes.set(key, table)
		}
	}
	if k.MaxPods != nil {
		kubernetes.set("max-pods", tomlInteger(*k.MaxPods))
	}
	if k.EvictionMaxPodGracePeriod != nil {
		kubernetes.set("eviction-max-pod-grace-period", tomlInteger(*k.EvictionMaxPodGracePeriod))
	}
	// Older images take these as texts only, newer ones both ways.
	if k.ImageGCHighThresholdPercent != nil {
		kubernetes.set("image-gc-high-threshold-percent", strconv.Itoa(int(*k.ImageGCHighThresholdPercent)))
	}
	if k.ImageGCLowThresholdPercent != nil {
		kubernetes.set("image-gc-low-threshold-percent", strconv.Itoa(int(*k.ImageGCLowThresholdPercent)))
	}
	if k.CPUCFSQuota != nil {
		kubernetes.set("cpu-cfs-quota-enforced", *k.CPUCFSQuota)
	}
}

func tomlInteger(n int32) tomlLiteral {
	return tomlLiteral{strconv.Itoa(int(n)), tomlIsInteger}
}

// mountCommand sorts before other commands, as they may use what it mounts.
const mountCommand = "000-mount-instance-storage"

// mountStorage is the command that joins the built-in disks and puts the kubelet's and the runtime's folders on them.
func (o *Options) mountStorage() *tomlTable {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	if !bindsByDefault(o.AMIVersion) {
		bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
	}
	command := newTOMLTable(tomlHeader)
	command.set("commands", []any{anys([]string{"apiclient", "ephemeral-storage", "init"}), anys(bind)})
	command.set("essential", true)
	command.set("mode", "always")
	return command
}

var imageVersion = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})\.[0-9]`)

// bindsByDefault reports whether the image knows by itself which folders to put on built-in disks, as it does since
// 1.46.0. Naming them works with every version.
func bindsByDefault(version string) bool {
	if version == "latest" {
		return true
	}
	match := imageVersion.FindStringSubmatch(version)
	if match == nil {
		return false
	}
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2])
	return major > 1 || major == 1 && minor >= 46
}
