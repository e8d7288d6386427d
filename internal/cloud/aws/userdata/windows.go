package userdata

import (
	"regexp"
	"strings"
)

// powershellTag is what the launch agent cuts user data by. Within the user's commands it would end ours.
var powershellTag = regexp.MustCompile(`(?i)</?powershell`)

// renderWindows writes one PowerShell block: the user's commands, then the bootstrap script of the EKS image.
func renderWindows(family Family, o Options) (Document, error) {
	if err := o.check(); err != nil {
		return Document{}, err
	}
	if err := o.Kubelet.refuseExtra(family); err != nil {
		return Document{}, err
	}
	if len(o.Kubelet.ClusterDNS) > 1 {
		return Document{}, &InputError{Field: "spec.kubelet.clusterDNS", Wrong: "has more than one address, and AMI family " + string(family) + " takes one", Cure: "leave one"}
	}
	if at := powershellTag.FindStringIndex(o.UserData); at != nil {
		return Document{}, &InputError{
			Field: fieldUserData, Line: lineAt(o.UserData, at[0]),
			Wrong: "has a tag " + quoted(o.UserData[at[0]:at[1]]+">"), Cure: "give the commands alone; Karpenter puts the tags around them",
		}
	}
	var b strings.Builder
	b.WriteString("<powershell>\n")
	if user := strings.TrimRight(o.UserData, "\r\n\t "); user != "" {
		b.WriteString(user + "\n")
	}
	b.WriteString(`[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"` + "\n")
	b.WriteString("& $EKSBootstrapScriptFile -EKSClusterName " + powershellQuote(o.ClusterName) + " -APIServerEndpoint " + powershellQuote(o.Endpoint))
	if o.CABundle != "" {
		b.WriteString(" -Base64ClusterCA " + powershellQuote(o.CABundle))
	}
	b.WriteString(" -KubeletExtraArgs " + powershellQuote(strings.Join(o.kubeletFlags(), " ")))
	if len(o.Kubelet.ClusterDNS) == 1 {
		b.WriteString(" -DNSClusterIP " + powershellQuote(o.Kubelet.ClusterDNS[0]))
	}
	b.WriteString("\n</powershell>\n")
	doc := Document{Text: b.String()}
	if o.InstanceStore == RAID0 {
		doc.Ignored = append(doc.Ignored, "spec.instanceStorePolicy: the images of AMI family "+string(family)+" cannot join built-in disks")
	}
	return doc, nil
}

// powershellQuotes are the characters that end a string in single quotes; PowerShell takes the typographic ones too.
var powershellQuotes = strings.NewReplacer("'", "''", "‘", "‘‘", "’", "’’", "‚", "‚‚", "‛", "‛‛")

func powershellQuote(s string) string {
	return "'" + powershellQuotes.Replace(s) + "'"
}
