package v1

import (
	"strings"
	"testing"
)

func TestParseAlias(t *testing.T) {
	tests := []struct {
		text, family string
		pinned       bool
	}{
		{"al2@latest", AMIFamilyAL2, false},
		{"al2@v20240807", AMIFamilyAL2, true},
		{"al2023@latest", AMIFamilyAL2023, false},
		{"al2023@v20250505", AMIFamilyAL2023, true},
		{"bottlerocket@latest", AMIFamilyBottlerocket, false},
		{"bottlerocket@v1.20.4", AMIFamilyBottlerocket, true},
		{"bottlerocket@1.20.4", AMIFamilyBottlerocket, true},
		{"windows2019@latest", AMIFamilyWindows2019, false},
		{"windows2022@latest", AMIFamilyWindows2022, false},
		{"windows2025@latest", AMIFamilyWindows2025, false},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			alias, err := ParseAlias(test.text)
			if err != nil || alias.Family != test.family || alias.Pinned() != test.pinned || alias.String() != test.text {
				t.Errorf("%+v, %v", alias, err)
			}
		})
	}
	for text, want := range map[string]string{
		"":                    "family@version",
		"al2023":              "family@version",
		"@latest":             "family@version",
		"al2023@":             "family@version",
		"ubuntu@latest":       "is not known",
		"custom@latest":       "is not known",
		"AL2023@latest":       "is not known",
		"al2023@20250505":     "v20250505",
		"al2023@v2025":        "v20250505",
		"al2023@latest@x":     "v20250505",
		"bottlerocket@v1.20":  "v1.20.4",
		"bottlerocket@newest": "v1.20.4",
		"windows2022@v1":      "must be latest",
	} {
		t.Run("refused "+text, func(t *testing.T) {
			if alias, err := ParseAlias(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v, %v; want %s", alias, err, want)
			}
		})
	}
}

func TestAMIFamily(t *testing.T) {
	family := func(alias string, family *string) string {
		c := &EC2NodeClass{Spec: EC2NodeClassSpec{AMIFamily: family}}
		if alias != "" {
			c.Spec.AMISelectorTerms = []AMISelectorTerm{{Alias: alias}}
		}
		return c.AMIFamily()
	}
	custom := AMIFamilyCustom
	for _, test := range []struct{ got, want string }{
		{family("al2023@latest", nil), AMIFamilyAL2023},
		{family("al2023@latest", &custom), AMIFamilyCustom},
		{family("", &custom), AMIFamilyCustom},
		{family("", nil), AMIFamilyCustom},
		{family("nonsense", nil), AMIFamilyCustom},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
}

func FuzzAlias(f *testing.F) {
	for _, text := range []string{"al2023@latest", "bottlerocket@v1.2.3", "@", "windows2022@latest", "al2@v00000000"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &EC2NodeClass{Spec: EC2NodeClassSpec{AMISelectorTerms: []AMISelectorTerm{{Alias: text}}}}
		c.AMIFamily()
		alias, err := ParseAlias(text)
		if err != nil {
			return
		}
		if again, err := ParseAlias(alias.String()); err != nil || again != alias || alias.String() != text {
			t.Fatalf("%q is %+v and then %+v (%v)", text, alias, again, err)
		}
	})
}
