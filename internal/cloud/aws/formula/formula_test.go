package formula

import (
	"strings"
	"testing"
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
		// what CEL has besides
		"[10, 20, 30][vcpus]":                          30,
		"instance_type.size()":                         8,
		"size(instance_type) + size([1, 2])":           10,
		"{'m5.large': 40}[instance_type]":              40,
		"instance_type in {'m5.large': 40} ? 1 : 2":    1,
		"[2, 4, 8].exists(n, n == vcpus) ? 1 : 2":      1,
		"[2, 4, 8].filter(n, n > vcpus)[0]":            4,
		"vcpus > 1.5 ? 1 : 2":                          1,
		"int('12') + vcpus":                            14,
		"uint(5)":                                      5,
		"instance_type.matches(instance_type) ? 1 : 2": 1,
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
		"":                                   "at character 1: ",
		"min(110,":                           "at character 9: ",
		"undefined_var + 1":                  "at character 1: undeclared reference to 'undefined_var'",
		"1 +\n lots":                         "at line 2, character 2: undeclared reference to 'lots'",
		"lots":                               "there are default_enis, instance_type,",
		"1 2":                                "at character 3: ",
		"vcpus * 0.5":                        "int() and double() make numbers the same",
		"5.0 % 2.0":                          "found no matching overload for '_%_' applied to '(double, double)'",
		"vcpus ? 1 : 2":                      "at character 7: found no matching overload for '_?_:_'",
		"instance_type":                      "gives string, where a number is needed",
		"vcpus > 1":                          "gives bool, where a number is needed",
		"max(1)":                             "found no matching overload for 'max' applied to '(int)'",
		"max(1, 'a')":                        "found no matching overload for 'max' applied to '(int, string)'",
		"ceil(1.5)":                          "undeclared reference to 'ceil'",
		"instance_type.matches('(') ? 1 : 2": "missing closing )",
		"int(1e300)":                         "overflow",
		"'open":                              "token recognition error",
		"99999999999999999999":               "invalid int literal",
		strings.Repeat("(", 100):             "recursion limit",
		strings.Repeat("1+", 1000) + "1":     "size exceeds limit",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

func TestAWS_1_5_FormulaWithoutAValue(t *testing.T) {
	for text, want := range map[string]string{
		"100 / (vcpus - 2)":               "by zero",
		"100 % (vcpus - 2)":               "by zero",
		"1.0 / double(vcpus - 2)":         "gives +Inf",
		"0.0 / 0.0":                       "gives NaN",
		"vcpus - 4":                       "gives -2, which is not from 0 to 2147483647",
		"memory_mib * 1048576":            "gives 8589934592",
		"1e300":                           "which is not from 0",
		"9223372036854775807 + vcpus":     "overflow",
		"-9223372036854775807 - vcpus":    "overflow",
		"9223372036854775807 * vcpus":     "overflow",
		"(1 / 0 > 0) ? 1 : 2":             "by zero",
		"1 / 0 > 0 || vcpus > 2 ? 1 : 2":  "by zero",
		"max(1 / 0, 2)":                   "by zero",
		"int(0.0 / 0.0)":                  "overflow",
		"{'c5.large': 40}[instance_type]": "no such key: m5.large",
		"[1, 2][vcpus]":                   "index out of bounds: 2",
		"[1, 'a'][1]":                     "gives string, where a number is needed",
		strings.Repeat("[1,2,3,4].map(a, ", 15) + "1" + strings.Repeat(")", 15) + ".size()": "cost",
		"!(1 / 0 > 0) ? 1 : 2": "by zero",
		"instance_type in ['a'] && 1 / 0 > 0 || 1 % 0 > 0 ? 1 : 2": "by zero",
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
