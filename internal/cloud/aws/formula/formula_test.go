package formula

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var large = Variables{VCPUs: 2, MemoryMiB: 8192, DefaultENIs: 3, IPsPerENI: 10, MaxPods: 29, InstanceType: "m5.large"}

func TestAWS_1_5_FormulaValues(t *testing.T) {
	for text, want := range map[string]int64{
		"110":  110,
		"0x10": 16,
		"((default_enis - 1) * (ips_per_eni - 1)) + 2":                20,
		"min(250, ((default_enis - 1) * (ips_per_eni - 1)) * 16 + 2)": 250,
		"min(110, max_pods)":                    29,
		"11 * max_pods + 255":                   574,
		"max(100, memory_mib / 64)":             128,
		"max(60, vcpus * 30)":                   60,
		"max(2.5, vcpus)":                       2,
		"min(vcpus, 0.5)":                       0,
		"1 + 2 * 3 - 4 / 2 % 3":                 5,
		"10 - 3 - 2":                            5,
		"-3 + 5":                                2,
		"--3":                                   3,
		"7.9":                                   7,
		".5 + 1e2":                              100,
		"int(7.9) % 4":                          3,
		"int(double(vcpus) * 1.5)":              3,
		"double(memory_mib) * 0.05":             409,
		"vcpus > 4 ? 100 : vcpus > 1 ? 50 : 10": 50,
		"vcpus >= 2 && !(memory_mib < 100) ? 1 : 2":         1,
		"vcpus == 4 || memory_mib != 8192 ? 1 : 2":          2,
		"vcpus <= 2 ? 1 : 2":                                1,
		"instance_type == 'm5.large' ? 1 : 2":               1,
		"instance_type < 'n' ? 1 : 2":                       1,
		`instance_type in ["c5.large", "m5.large"] ? 1 : 2`: 1,
		"vcpus in [4, 8] ? 1 : 2":                           2,
		"vcpus in [] ? 1 : 2":                               2,
		"instance_type.startsWith('m5.') ? 1 : 2":           1,
		"instance_type.endsWith('.metal') ? 1 : 2":          2,
		"instance_type.contains('5') ? 1 : 2":               1,
		"instance_type.matches('^[mc]5[.]') ? 1 : 2":        1,
		"true == false ? 1 : 2":                             2,
		"true || 1 / 0 > 0 ? 1 : 2":                         1,
		"1 / 0 > 0 || true ? 1 : 2":                         1,
		"1 / 0 > 0 && false ? 1 : 2":                        2,
		"vcpus > 100 ? 1 / 0 : 3":                           3,
		"vcpus // of the type\n + 1":                        3,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Number(large); err != nil || got != want {
			t.Errorf("%s gives %d (%v), want %d", text, got, err, want)
		}
	}
}

func TestAWS_1_5_FormulaThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "ends where a value is missing",
		"min(110,":                           "ends where a value is missing",
		"undefined_var + 1":                  "at character 1: there is no variable undefined_var; there are default_enis, instance_type,",
		"lots":                               "there is no variable lots",
		"100m":                               `a number cannot go on with 'm'`,
		"1 +":                                "ends where a value is missing",
		"1 2":                                `at character 3: "2" stands where an operator or the end should`,
		"(1":                                 `ends where ")" is missing`,
		"vcpus * 0.5":                        "use int() or double()",
		"vcpus > 1.5 ? 1 : 2":                "use int() or double()",
		"5.0 % 2.0":                          "% cannot be between a fraction and a fraction",
		"vcpus ? 1 : 2":                      "? needs true or false before it",
		"true ? 1 : 2.0":                     "two values of one type",
		"true ? 1":                           `ends where ":" is missing`,
		"instance_type":                      "gives a text, where a number is needed",
		"vcpus > 1":                          "gives true or false, where a number is needed",
		"-instance_type":                     "- cannot be before a text",
		"!vcpus":                             "! cannot be before a whole number",
		"max(1)":                             "max takes two numbers",
		"max(1, 'a')":                        "max takes two numbers",
		"int('1')":                           "int takes one number",
		"ceil(1.5)":                          "there is no function ceil; there are min, max",
		"instance_type.size() > 1 ? 1 : 2":   "must stand after a text and take one text",
		"instance_type.lower('a') ? 1 : 2":   "texts have no function lower",
		"vcpus.startsWith('1') ? 1 : 2":      "must stand after a text",
		"instance_type.matches('(') ? 1 : 2": "missing closing )",
		"instance_type.matches(instance_type) ? 1 : 2": "takes a pattern in quotes",
		"instance_type.x":                `ends where "(" is missing`,
		"instance_type.'a'":              "stands where the name of a function should",
		"vcpus in 5":                     `stands where "[" should`,
		"vcpus in ['a'] ? 1 : 2":         "== cannot be between a whole number and a text",
		"true < false ? 1 : 2":           "< cannot be between",
		"'open":                          "a text must end with '",
		"vcpus # 2":                      `'#' has no meaning here`,
		"99999999999999999999":           "is not a number that can be used",
		"1e999":                          "is not a number that can be used",
		"1.2.3":                          "is not a number that can be used",
		"0x":                             "is not a number that can be used",
		strings.Repeat("(", 100):         "is nested more than 64 deep",
		strings.Repeat("-", 100) + "1":   "is nested more than 64 deep",
		strings.Repeat("1+", 1000) + "1": "at most 1024 are allowed",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func TestAWS_1_5_FormulaWithoutAValue(t *testing.T) {
	for text, want := range map[string]string{
		"100 / (vcpus - 2)":              "divides by zero",
		"100 % (vcpus - 2)":              "divides by zero",
		"1.0 / double(vcpus - 2)":        "gives +Inf",
		"0.0 / 0.0":                      "gives NaN",
		"vcpus - 4":                      "gives -2, which is not from 0 to 2147483647",
		"memory_mib * 1048576":           "gives 8589934592",
		"1e300":                          "which is not from 0",
		"9223372036854775807 + vcpus":    "goes beyond 64 bits",
		"-9223372036854775807 - vcpus":   "goes beyond 64 bits",
		"9223372036854775807 * vcpus":    "goes beyond 64 bits",
		"int(1e300)":                     "goes beyond 64 bits",
		"(1 / 0 > 0) ? 1 : 2":            "divides by zero",
		"1 / 0 > 0 || vcpus > 2 ? 1 : 2": "divides by zero",
		"max(1 / 0, 2)":                  "divides by zero",
		"int(0.0 / 0.0)":                 "goes beyond 64 bits",
		"!(1 / 0 > 0) ? 1 : 2":           "divides by zero",
		"instance_type in ['a'] && 1 / 0 > 0 || 1 % 0 > 0 ? 1 : 2": "divides by zero",
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Number(large); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %d, %v; want %s", text, got, err, want)
		}
	}
}

// TestInteger_EqualsWideArithmetic holds whole arithmetic against the same on fractions, which tell when 64 bits are passed.
func TestInteger_EqualsWideArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Int64().Draw(t, "x"), rapid.Int64().Draw(t, "y")
		for op, wide := range map[string]float64{"+": float64(x) + float64(y), "-": float64(x) - float64(y), "*": float64(x) * float64(y)} {
			got, err := integer(op, x, y)
			clear := wide > 9.3e18 || wide < -9.3e18
			if within := wide < 9.2e18 && wide > -9.2e18; clear && err == nil || within && err != nil {
				t.Fatalf("%d %s %d = %d, %v", x, op, y, got, err)
			}
		}
	})
}

func FuzzFormula(f *testing.F) {
	for _, text := range []string{"min(110, max_pods)", "1/0", "a ? b : c", "'x' in ['y']", "-(1.5e3 * .2)", "instance_type.matches('a')", "0x", "//", "1 %% 2", "!true"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		formula, err := Parse(text)
		if err != nil {
			return
		}
		if n, err := formula.Number(large); err == nil && (n < 0 || n > 1<<31-1) {
			t.Fatalf("%q gives %d", text, n)
		}
	})
}
