package userdata

import (
	"net/netip"
	"strings"
)

// preamble stops at the first failure and keeps a log of what the script did where people look for it.
const preamble = `#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
`

// renderAL2 writes an archive whose last part calls the bootstrap script of the EKS image. The user's parts run before
// it, so that what they prepare is there when the kubelet starts.
func renderAL2(o Options) (Document, error) {
	if err := o.check(); err != nil {
		return Document{}, err
	}
	if err := o.Kubelet.refuseExtra(AL2); err != nil {
		return Document{}, err
	}
	parts, err := userParts(o.UserData, false)
	if err != nil {
		return Document{}, err
	}
	return Document{Text: writeArchive(append(parts, newShellPart(preamble+o.bootstrapCommand())))}, nil
}

// bootstrapCommand calls /etc/eks/bootstrap.sh.
func (o *Options) bootstrapCommand() string {
	first := "/etc/eks/bootstrap.sh " + shellQuote(o.ClusterName) + " --apiserver-endpoint " + shellQuote(o.Endpoint)
	if o.CABundle != "" {
		first += " --b64-cluster-ca " + shellQuote(o.CABundle)
	}
	lines := []string{first}
	if dns := o.Kubelet.ClusterDNS; len(dns) > 0 {
		if ip, err := netip.ParseAddr(dns[0]); err == nil && ip.Is6() {
			lines = append(lines, "--ip-family ipv6")
		}
		lines = append(lines, "--dns-cluster-ip "+shellQuote(strings.Join(dns, ",")))
	}
	if o.Kubelet.MaxPods != nil {
		lines = append(lines, "--use-max-pods false")
	}
	lines = append(lines, "--kubelet-extra-args "+shellQuote(strings.Join(o.kubeletFlags(), " ")))
	if o.InstanceStore == RAID0 {
		lines = append(lines, "--local-disks raid0")
	}
	return strings.Join(lines, " \\\n")
}

// shellQuote makes one word of any text: within single quotes a shell sees nothing but the quote.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
