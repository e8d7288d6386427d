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
	file, err := readTOML(o.UserData)
	if err != nil {
		return Document{}, err
	}
	var doc Document
	for _, key := range slices.Sorted(maps.Keys(file.root)) {
		if key != "settings" {
			doc.Ignored = append(doc.Ignored, fmt.Sprintf("%s, line %d: %s is not below settings, where the image looks", fieldUserData, file.line(key), short(key)))
			delete(file.root, key)
		}
	}
	kubernetes, err := file.table("settings", "kubernetes")
	if err != nil {
		return Document{}, err
	}
	ignored, err := checkKubernetesSettings(file, kubernetes)
	if err != nil {
		return Document{}, err
	}
	doc.Ignored = bounded(append(doc.Ignored, ignored...))
	labels, err := file.table("settings", "kubernetes", "node-labels")
	if err != nil {
		return Document{}, err
	}
	for key, value := range o.joinLabels() {
		labels[key] = value
	}
	o.setKubernetes(kubernetes)
	if o.InstanceStore == RAID0 {
		commands, err := file.table("settings", "bootstrap-commands")
		if err != nil {
			return Document{}, err
		}
		commands[mountCommand] = o.mountStorage()
	}
	doc.Text, err = file.write()
	return doc, err
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
func (o *Options) setKubernetes(kubernetes map[string]any) {
	kubernetes["cluster-name"] = o.ClusterName
	kubernetes["api-server"] = o.Endpoint
	if o.CABundle != "" {
		kubernetes["cluster-certificate"] = o.CABundle
	}
	switch dns := o.Kubelet.ClusterDNS; len(dns) {
	case 0:
	case 1:
		kubernetes["cluster-dns-ip"] = dns[0]
	default:
		kubernetes["cluster-dns-ip"] = dns
	}
	taints := map[string][]string{}
	for _, taint := range o.joinTaints() {
		taints[taint.Key] = append(taints[taint.Key], taint.Value+":"+taint.Effect)
	}
	kubernetes["node-taints"] = taints
	o.Kubelet.setSettings(kubernetes)
}

// setSettings writes spec.kubelet in the image's names. A table replaces the user's as a whole.
func (k *Kubelet) setSettings(kubernetes map[string]any) {
	for key, values := range map[string]map[string]string{
		"system-reserved": k.SystemReserved, "kube-reserved": k.KubeReserved, "eviction-hard": k.EvictionHard,
		"eviction-soft": k.EvictionSoft, "eviction-soft-grace-period": graces(k.EvictionSoftGracePeriod),
	} {
		if len(values) > 0 {
			kubernetes[key] = values
		}
	}
	if k.MaxPods != nil {
		kubernetes["max-pods"] = *k.MaxPods
	}
	if k.EvictionMaxPodGracePeriod != nil {
		kubernetes["eviction-max-pod-grace-period"] = *k.EvictionMaxPodGracePeriod
	}
	// Older images take these as texts only, newer ones both ways.
	if k.ImageGCHighThresholdPercent != nil {
		kubernetes["image-gc-high-threshold-percent"] = strconv.Itoa(int(*k.ImageGCHighThresholdPercent))
	}
	if k.ImageGCLowThresholdPercent != nil {
		kubernetes["image-gc-low-threshold-percent"] = strconv.Itoa(int(*k.ImageGCLowThresholdPercent))
	}
	if k.CPUCFSQuota != nil {
		kubernetes["cpu-cfs-quota-enforced"] = *k.CPUCFSQuota
	}
}

// mountCommand sorts before other commands, as they may use what it mounts.
const mountCommand = "000-mount-instance-storage"

// mountStorage is the command that joins the built-in disks and puts the kubelet's and the runtime's folders on them.
func (o *Options) mountStorage() map[string]any {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	if !bindsByDefault(o.AMIVersion) {
		bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
	}
	return map[string]any{"commands": [][]string{{"apiclient", "ephemeral-storage", "init"}, bind}, "essential": true, "mode": "always"}
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
