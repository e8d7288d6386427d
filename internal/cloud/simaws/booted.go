package simaws

import (
	"encoding/base64"
	"fmt"

	"karpenter/internal/cloud/simaws/boot"
	"karpenter/internal/cloud/simaws/catalog"
)

// Instance is an instance whose operating system has come up, with what its
// user data told it to be.
type Instance struct {
	Account, Region, Zone, ZoneID          string
	InstanceID, Type, ImageID, Family      string
	PrivateDNS, PrivateIP, IPv6, Lifecycle string
	// ProviderID is what its Node object will carry.
	ProviderID string
	// NodeName is the name it registers under.
	NodeName string
	Arch     string
	// Info is the type's entry in the catalogue; it must not be changed.
	Info *catalog.Type
	Tags []Tag
	// Node is the decoded user data.
	Node boot.Node
	// Boot counts how often the instance has been booted again.
	Boot int
	// VolumeGiB is the size of the volume that it keeps its pods' files on.
	VolumeGiB int64
	// Volumes is how many volumes are its own.
	Volumes int
}

// Watcher is told of instances that join their cluster and of those that leave
// because their instance stops, reboots or ends. Calls come one at a time, in order, and
// without the world's lock, so a watcher may call back.
type Watcher interface {
	Joined(m Instance)
	Left(m Instance, reason string)
}

func (p place) booted(in *instance) Instance {
	m := Instance{
		Account: p.acct.ID, Region: p.reg.Name, Zone: in.Zone, ZoneID: in.ZoneID, InstanceID: in.ID, Type: in.Type, ImageID: in.ImageID,
		PrivateDNS: in.PrivateDNS, PrivateIP: in.PrivateIP, IPv6: in.IPv6, Lifecycle: in.Lifecycle,
		ProviderID: "aws:///" + in.Zone + "/" + in.ID, NodeName: in.PrivateDNS, Arch: in.Arch, Info: p.cat.Type(in.Type), Tags: in.Tags,
		Family: familyCustom, Boot: in.Boots, Volumes: len(in.Devices),
	}
	if img := p.reg.Images.get(in.ImageID); img != nil {
		m.Family = img.Family
	}
	m.VolumeGiB = p.podVolume(in, m.Family)
	return m
}

// podVolume is the size in GiB of the volume that pods' files are kept on.
func (p place) podVolume(in *instance, family string) (size int64) {
	device := map[string]string{"Bottlerocket": "/dev/xvdb", "Windows": "/dev/sda1"}[family] // Bottlerocket's first holds the system only
	if device == "" {
		device = "/dev/xvda"
	}
	for i, d := range in.Devices {
		if v := p.reg.Volumes.get(d.Volume); v != nil && (i == 0 || d.Device == device) {
			size = int64(v.SizeGB)
		}
	}
	return size
}

// join lets the operating system read its user data. What a real node could
// not boot from leaves an instance that runs and never joins, and a console
// that says why.
func (p place) join(in *instance) {
	if in.state() != stateRunning || in.Joined {
		return
	}
	m := p.booted(in)
	raw, err := base64.StdEncoding.DecodeString(in.UserData)
	if err == nil {
		m.Node, err = boot.Decode(m.Family, raw)
	}
	if err == nil {
		err = p.admits(in, &m)
	}
	if err != nil {
		in.Console += fmt.Sprintf("[cloud-init] %v\n[simulator] this instance will not join a cluster\n", err)
		return
	}
	in.Joined = true
	in.Console += fmt.Sprintf("[cloud-init] node %s registers with cluster %s at %s\n", m.NodeName, m.Node.ClusterName, m.Node.Endpoint)
	if w := p.opt.Watcher; w != nil {
		p.post(func() { w.Joined(m) })
	}
}

// admits checks what the control plane would refuse.
func (p place) admits(in *instance, m *Instance) error {
	cl := p.reg.Clusters.get(m.Node.ClusterName)
	switch {
	case cl == nil:
		return fmt.Errorf("cluster %q does not exist in %s", m.Node.ClusterName, p.reg.Name)
	case m.Node.Endpoint != "" && m.Node.Endpoint != cl.Endpoint:
		return fmt.Errorf("API server endpoint %q is not that of cluster %s (%s)", m.Node.Endpoint, cl.Name, cl.Endpoint)
	case in.ProfileARN == "":
		return fmt.Errorf("the instance has no instance profile, so it cannot authenticate to cluster %s", cl.Name)
	}
	if m.Node.Endpoint == "" {
		m.Node.Endpoint = cl.Endpoint
	}
	if m.Node.CA == "" {
		m.Node.CA = cl.CA
	}
	return nil
}

// leave tells the watcher that a joined instance is gone.
func (p place) leave(in *instance, reason string) {
	if !in.Joined {
		return
	}
	in.Joined = false
	if w := p.opt.Watcher; w != nil {
		m := p.booted(in)
		p.post(func() { w.Left(m, reason) })
	}
}
