package v1

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The AMI families: how an image is bootstrapped.
const (
	AMIFamilyAL2          = "AL2"
	AMIFamilyAL2023       = "AL2023"
	AMIFamilyBottlerocket = "Bottlerocket"
	AMIFamilyWindows2019  = "Windows2019"
	AMIFamilyWindows2022  = "Windows2022"
	AMIFamilyWindows2025  = "Windows2025"
	// AMIFamilyCustom sends the user's data to the instance as it is.
	AMIFamilyCustom = "Custom"
)

// AliasVersionLatest follows whatever image AWS recommends now.
const AliasVersionLatest = "latest"

// aliasFamilies are the families that AWS publishes images of; an alias names one in lower case.
var aliasFamilies = []string{
	AMIFamilyAL2, AMIFamilyAL2023, AMIFamilyBottlerocket, AMIFamilyWindows2019, AMIFamilyWindows2022, AMIFamilyWindows2025,
}

// Alias is a parsed AMI alias such as al2023@v20250505.
// +kubebuilder:object:generate=false
type Alias struct {
	// Family is one of the AMIFamily constants, never Custom.
	Family string
	// Version is latest, or a pinned version as the user wrote it.
	Version string
}

// Pinned reports whether the alias names one image for good.
func (a Alias) Pinned() bool { return a.Version != AliasVersionLatest }

// String returns the alias as a user writes it.
func (a Alias) String() string { return strings.ToLower(a.Family) + "@" + a.Version }

var (
	datedVersion  = regexp.MustCompile(`^v[0-9]{8}$`)
	dottedVersion = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+$`)
)

// ParseAlias reads family@version. The family must be one that AWS publishes; the form of a pinned version
// depends on it. The API server accepts any text as version, so callers must expect an error.
func ParseAlias(text string) (Alias, error) {
	name, version, found := strings.Cut(text, "@")
	if !found || name == "" || version == "" {
		return Alias{}, fmt.Errorf("alias %q: write family@version, for example al2023@latest", text)
	}
	at := slices.IndexFunc(aliasFamilies, func(family string) bool { return strings.ToLower(family) == name })
	if at < 0 {
		return Alias{}, fmt.Errorf("alias %q: family %q is not known; use al2, al2023, bottlerocket, windows2019, windows2022 or windows2025", text, name)
	}
	alias := Alias{Family: aliasFamilies[at], Version: version}
	if !alias.Pinned() {
		return alias, nil
	}
	switch alias.Family {
	case AMIFamilyAL2, AMIFamilyAL2023:
		if !datedVersion.MatchString(version) {
			return Alias{}, fmt.Errorf("alias %q: version must be latest or a date such as v20250505", text)
		}
	case AMIFamilyBottlerocket:
		if !dottedVersion.MatchString(version) {
			return Alias{}, fmt.Errorf("alias %q: version must be latest or a release such as v1.20.4", text)
		}
	default:
		return Alias{}, fmt.Errorf("alias %q: version of a windows family must be latest", text)
	}
	return alias, nil
}

// Alias returns the class's alias; ok is false if it selects images in another way.
func (c *EC2NodeClass) Alias() (alias Alias, ok bool, err error) {
	for _, term := range c.Spec.AMISelectorTerms {
		if term.Alias != "" {
			alias, err := ParseAlias(term.Alias)
			return alias, err == nil, err
		}
	}
	return Alias{}, false, nil
}

// AMIFamily returns how nodes of the class are bootstrapped: the family that the user wrote, else that of the
// alias, else Custom, which sends only what the user gave.
func (c *EC2NodeClass) AMIFamily() string {
	if c.Spec.AMIFamily != nil {
		return *c.Spec.AMIFamily
	}
	if alias, ok, _ := c.Alias(); ok {
		return alias.Family
	}
	return AMIFamilyCustom
}
