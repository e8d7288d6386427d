package simaws

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// defaultKubernetesVersions have images and aliases.
var defaultKubernetesVersions = []string{
	"1.25", "1.26", "1.27", "1.28", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37",
}

// AMI families as the boot decoder knows them.
const (
	familyAL2          = "AL2"
	familyAL2023       = "AL2023"
	familyBottlerocket = "Bottlerocket"
	familyWindows      = "Windows"
	familyCustom       = "Custom"
)

type image struct {
	ID, Name, Description, Arch, Family string
	Owner, OwnerAlias                   string
	Platform, RootDevice, Snapshot      string
	SizeGB                              int
	Created, Deprecated                 time.Time
	Public                              bool
	State                               string
	Tags                                tagSet
}

type parameter struct {
	Name, Value string
	Version     int
	At          time.Time
}

// release is one publication of the node images. The newest is what the
// aliases point to; the older one lets drift and pinning be tried.
type release struct {
	date, bottlerocket string
}

var releases = []release{
	{"20250704", "1.42.0"},
	{"20250920", "1.48.0"},
}

// imageKind is a variant that is published for every Kubernetes version.
// Placeholders: {k} Kubernetes version, {d} date, {b} Bottlerocket version.
type imageKind struct {
	family, arch, name, owner, root string
	sizeGB                          int
	platform                        string
	// paths are the SSM parameters that hold the id; latest ones only for the
	// newest release.
	latest, pinned []string
}

const (
	eksOwner          = "602401143452"
	bottlerocketOwner = "092701018921"
	windowsOwner      = "801119661308"
)

func imageKinds() []imageKind {
	const eks = "/aws/service/eks/optimized-ami/{k}/"
	var out []imageKind
	for _, v := range []struct{ suffix, arch string }{{"", "x86_64"}, {"-arm64", "arm64"}, {"-gpu", "x86_64"}} {
		name := "amazon-eks" + v.suffix + "-node-{k}-v{d}"
		base := eks + "amazon-linux-2" + v.suffix + "/"
		out = append(out, imageKind{
			family: familyAL2, arch: v.arch, name: name, owner: eksOwner, root: "/dev/xvda", sizeGB: 20,
			latest: []string{base + "recommended"}, pinned: []string{base + name},
		})
	}
	for _, v := range [][2]string{{"x86_64", "standard"}, {"x86_64", "nvidia"}, {"x86_64", "neuron"}, {"arm64", "standard"}, {"arm64", "nvidia"}} {
		name := "amazon-eks-node-al2023-" + v[0] + "-" + v[1] + "-{k}-v{d}"
		base := eks + "amazon-linux-2023/" + v[0] + "/" + v[1] + "/"
		out = append(out, imageKind{
			family: familyAL2023, arch: v[0], name: name, owner: eksOwner, root: "/dev/xvda", sizeGB: 20,
			latest: []string{base + "recommended"}, pinned: []string{base + name},
		})
	}
	for _, v := range [][2]string{{"x86_64", ""}, {"arm64", ""}, {"x86_64", "-nvidia"}, {"arm64", "-nvidia"}} {
		base := "/aws/service/bottlerocket/aws-k8s-{k}" + v[1] + "/" + v[0] + "/"
		out = append(out, imageKind{
			family: familyBottlerocket, arch: v[0], name: "bottlerocket-aws-k8s-{k}" + v[1] + "-" + v[0] + "-v{b}-{h}",
			owner: bottlerocketOwner, root: "/dev/xvda", sizeGB: 2,
			latest: []string{base + "latest"}, pinned: []string{base + "{b}"},
		})
	}
	for _, year := range []string{"2019", "2022", "2025"} {
		for _, edition := range []string{"Core", "Full"} {
			name := "Windows_Server-" + year + "-English-" + edition + "-EKS_Optimized-{k}"
			out = append(out, imageKind{
				family: familyWindows, arch: "x86_64", name: name + "-{d}", owner: windowsOwner, root: "/dev/sda1", sizeGB: 50,
				platform: "windows", latest: []string{"/aws/service/ami-windows-latest/" + name},
			})
		}
	}
	return out
}

// seedImages publishes the node images and the SSM parameters that name them.
func (p place) seedImages() {
	kinds := imageKinds()
	for _, k := range p.opt.KubernetesVersions {
		for i, rel := range releases {
			for _, kind := range kinds {
				p.publish(kind, k, rel, i == len(releases)-1)
			}
		}
	}
}

func (p place) publish(kind imageKind, k8s string, rel release, newest bool) {
	fill := strings.NewReplacer("{k}", k8s, "{d}", rel.date, "{b}", rel.bottlerocket,
		"{h}", fmt.Sprintf("%08x", uint32(hashString(rel.bottlerocket))))
	name := fill.Replace(kind.name)
	h := hash64(hashString(p.reg.Name), hashString(name))
	created, _ := time.Parse("20060102", rel.date)
	img := &image{
		ID: fmt.Sprintf("ami-0%016x", h), Name: name, Arch: kind.arch, Family: kind.family,
		Description: "EKS-optimized node image for Kubernetes " + k8s,
		Owner:       kind.owner, OwnerAlias: "amazon", Platform: kind.platform, RootDevice: kind.root,
		Snapshot: fmt.Sprintf("snap-0%016x", hash64(h)), SizeGB: kind.sizeGB,
		Created: created, Deprecated: created.AddDate(2, 0, 0), Public: true, State: "available",
	}
	p.reg.Images.put(img.ID, img)
	paths := kind.pinned
	if newest {
		paths = append(append([]string{}, kind.latest...), kind.pinned...)
	}
	for _, path := range paths {
		p.publishAlias(fill.Replace(path), img, "v"+rel.date)
	}
}

// publishAlias writes the parameter itself, which holds a document where AWS
// has one, and the values below it.
func (p place) publishAlias(path string, img *image, version string) {
	doc, _ := json.Marshal(map[string]string{
		"schema_version": "2.0", "image_id": img.ID, "image_name": img.Name, "release_version": version,
	})
	for name, value := range map[string]string{
		path: string(doc), path + "/image_id": img.ID, path + "/image_name": img.Name, path + "/release_version": version,
	} {
		p.reg.Parameters[name] = &parameter{Name: name, Value: value, Version: 1, At: img.Created}
	}
}
