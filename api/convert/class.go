package convert

import "strings"

// Families of machine images. Ubuntu is one in v1beta1 only.
const (
	familyUbuntu = "Ubuntu"
	familyAL2    = "AL2"
	familyCustom = "Custom"
)

// aliasFamilies are the families that v1 finds the newest image of by an alias, with the name that the alias uses.
var aliasFamilies = map[string]string{
	"AL2": "al2", "AL2023": "al2023", "Bottlerocket": "bottlerocket",
	"Windows2019": "windows2019", "Windows2022": "windows2022", "Windows2025": "windows2025",
}

const (
	latest = "latest"

	// noImage stands in the selector of a class for which v1 has no default image: Ubuntu, or Custom without a selector.
	// It matches nothing, so the class is not Ready until it gets a selector. Clusters that were converted before carry
	// the same text.
	noImage = "ami-placeholder"

	// Selectors of v1 that v1beta1 cannot say are shown to v1beta1 readers in the name of the term. A colon is not
	// allowed in the name of an image, so these names cannot be mistaken for a real one.
	ssmName   = "ssm:"
	aliasName = "alias:"

	// The defaults of the hop limit: that of v1 keeps pods away from the metadata service.
	betaHopLimit = int64(2)
	v1HopLimit   = int64(1)
)

// classUp makes a v1 EC2NodeClass spec of a v1beta1 one.
func classUp(spec node) error {
	family, err := spec.text("amiFamily")
	if err != nil {
		return err
	}
	if family == familyUbuntu {
		// Ubuntu's images boot with the script that AL2's have, from another device.
		spec.tree["amiFamily"] = familyAL2
		spec.fill("blockDeviceMappings", []any{map[string]any{
			"deviceName": "/dev/sda1",
			"rootVolume": true,
			"ebs":        map[string]any{"encrypted": true, "volumeSize": "20Gi", "volumeType": "gp3"},
		}})
	}
	terms, err := spec.items("amiSelectorTerms")
	if err != nil {
		return err
	}
	if len(terms) == 0 {
		if alias, ok := aliasFamilies[family]; ok {
			// The alias says the family too.
			spec.tree["amiSelectorTerms"] = []any{map[string]any{"alias": alias + "@" + latest}}
			delete(spec.tree, "amiFamily")
		} else {
			spec.tree["amiSelectorTerms"] = []any{map[string]any{"id": noImage}}
		}
	}
	for _, term := range terms {
		if err := termUp(term, family, len(terms)); err != nil {
			return err
		}
	}
	return fillOptions(spec, betaHopLimit)
}

// fillOptions writes out what a version means by metadata options that are missing.
func fillOptions(spec node, hopLimit int64) error {
	options, err := spec.ensure("metadataOptions")
	if err != nil {
		return err
	}
	options.fill("httpEndpoint", "enabled")
	options.fill("httpProtocolIPv6", "disabled")
	options.fill("httpPutResponseHopLimit", hopLimit)
	options.fill("httpTokens", "required")
	return nil
}

// termUp reads selectors of v1 back out of the names that termDown hides them in.
func termUp(term node, family string, terms int) error {
	name, err := term.text("name")
	if err != nil {
		return err
	}
	if parameter, ok := strings.CutPrefix(name, ssmName); ok && parameter != "" {
		delete(term.tree, "name")
		term.tree["ssmParameter"] = parameter
	}
	// v1 wants an alias to stand alone.
	if alias, ok := strings.CutPrefix(name, aliasName); ok && terms == 1 && len(term.tree) == 1 && family == familyCustom && aliasFamily(alias) != "" {
		delete(term.tree, "name")
		term.tree["alias"] = alias
	}
	return nil
}

// aliasFamily returns the family that an alias such as al2023@latest is of, or "".
func aliasFamily(alias string) string {
	name, version, ok := strings.Cut(alias, "@")
	if !ok || version == "" {
		return ""
	}
	for _, family := range sortedKeys(aliasFamilies) {
		if aliasFamilies[family] == strings.ToLower(name) {
			return family
		}
	}
	return ""
}

// classDown makes a v1beta1 EC2NodeClass spec of a v1 one.
func classDown(spec node) error {
	terms, err := spec.items("amiSelectorTerms")
	if err != nil {
		return err
	}
	family, err := spec.text("amiFamily")
	if err != nil {
		return err
	}
	for _, term := range terms {
		alias, err := term.text("alias")
		if err != nil {
			return err
		}
		if found := aliasFamily(alias); found != "" && family != familyCustom {
			// In v1beta1 this is what a class without a selector means.
			spec.tree["amiFamily"] = found
			delete(spec.tree, "amiSelectorTerms")
			break
		}
		if err := termDown(term, alias); err != nil {
			return err
		}
	}
	mappings, err := spec.items("blockDeviceMappings")
	if err != nil {
		return err
	}
	for _, mapping := range mappings {
		ebs, err := mapping.child("ebs")
		if err != nil {
			return err
		}
		ebs.keep(v1beta1BlockDeviceFields...)
	}
	spec.keep(v1beta1ClassFields...)
	return fillOptions(spec, v1HopLimit)
}

func termDown(term node, alias string) error {
	parameter, err := term.text("ssmParameter")
	if err != nil {
		return err
	}
	switch {
	case term.has("name"):
	case parameter != "":
		term.tree["name"] = ssmName + parameter
	case alias != "":
		term.tree["name"] = aliasName + alias
	}
	term.keep(v1beta1TermFields...)
	return nil
}
