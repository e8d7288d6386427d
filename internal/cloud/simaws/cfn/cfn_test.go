package cfn

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `
AWSTemplateFormatVersion: "2010-09-09"
Description: sample
Parameters:
  ClusterName: {Type: String, Description: the name}
  Stage: {Type: String, Default: dev, AllowedValues: [dev, prod]}
Mappings:
  Sizes: {dev: {n: 1}, prod: {n: 3}}
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
  NotProd: !Not [!Condition IsProd]
Resources:
  Policy:
    Type: T::Policy
    Properties:
      Doc: !Sub |
        {"r":"${Queue.Arn}","c":"${ClusterName}","lit":"${!keep}"}
      Roles: [!Ref Role]
  Role:
    Type: T::Role
    Properties:
      Name: !Join ['-', [role, !Ref ClusterName, !Select [1, !Split [',', 'a,b']]]]
      Size: !FindInMap [Sizes, !Ref Stage, n]
      Extra: !If [IsProd, big, !Ref AWS::NoValue]
      Long: {"Fn::Sub": ["${A}-${AWS::Region}", {"A": {"Fn::GetAtt": ["Queue", "Arn"]}}]}
  Queue:
    Type: T::Queue
  ProdOnly:
    Type: T::Queue
    Condition: IsProd
    DependsOn: Policy
Outputs:
  QueueArn: {Value: !GetAtt Queue.Arn, Description: d}
  ProdArn: {Value: !GetAtt ProdOnly.Arn, Condition: IsProd}
`

func testEnv(stage string) Env {
	return Env{
		Parameters: map[string]string{"ClusterName": "c1", "Stage": stage, "AWS::Region": "r1"},
		Ref:        func(r string) (string, bool) { return "ref:" + r, r != "Nobody" },
		Attr:       func(r, a string) (string, bool) { return r + "/" + a, a == "Arn" },
	}
}

func TestTemplate(t *testing.T) {
	tm, err := Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range tm.Resources {
		names = append(names, r.Name)
	}
	if d := cmp.Diff([]string{"Queue", "Role", "Policy", "ProdOnly"}, names); d != "" {
		t.Errorf("order of making: %s", d)
	}
	got, err := tm.Properties(tm.Resources[1], testEnv("dev"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"Name": "role-c1-b", "Size": 1.0, "Long": "Queue/Arn-r1"}, got); d != "" {
		t.Error(d)
	}
	got, err = tm.Properties(tm.Resources[2], testEnv("dev"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"Doc": `{"r":"Queue/Arn","c":"c1","lit":"${keep}"}` + "\n", "Roles": []any{"ref:Role"}}, got); d != "" {
		t.Error(d)
	}
	for stage, want := range map[string]bool{"dev": false, "prod": true} {
		if ok, err := tm.Wanted(tm.Resources[3], testEnv(stage)); err != nil || ok != want {
			t.Errorf("ProdOnly in %s: %v, %v", stage, ok, err)
		}
	}
	for stage, want := range map[string]int{"dev": 1, "prod": 2} {
		out, err := tm.Outputs(testEnv(stage))
		if err != nil || len(out) != want || out[0].Value != "Queue/Arn" {
			t.Errorf("outputs in %s: %v, %v", stage, out, err)
		}
	}
}

// Anchors and merge keys say things once; a day, which YAML knows, stays the text that policies have.
func TestTemplateAnchors(t *testing.T) {
	tm, err := Parse(`
Resources:
  A:
    Type: T
    Properties:
      Base: &base {Version: 2012-10-17, Name: !Sub "a-${ClusterName}", Size: &size 3}
      Other: {<<: *base, Name: mine, On: yes}
      Both: {<<: [{Size: 1}, *base]}
      Sizes: [*size, 0x10, 1.5, true, ~, "3"]
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tm.Properties(tm.Resources[0], testEnv("dev"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Base":  map[string]any{"Version": "2012-10-17", "Name": "a-c1", "Size": 3.0},
		"Other": map[string]any{"Version": "2012-10-17", "Name": "mine", "Size": 3.0, "On": "yes"},
		"Both":  map[string]any{"Version": "2012-10-17", "Name": "a-c1", "Size": 1.0},
		"Sizes": []any{3.0, 16.0, 1.5, true, nil, "3"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTemplateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":            "format error",
		"":                "format error",
		"- a":             "unsupported structure",
		"a: 1\n---\na: 2": "more than one document",
		"a: 1\na: 2":      "line 2: key \"a\" is given twice",
		"a: &a [*a]":      "nested too deeply",
		"a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n" +
			"d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]": "too often",
		"Resources: {}":          "at least one",
		"Resources: {A: {X: 1}}": "no Type",
		"Resources:\n  A: {Type: T, Properties: {x: !Ref B}}\n  B: {Type: T, Properties: {x: !Ref A}}": "circular",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", text, err, want)
		}
	}
	for props, want := range map[string]string{
		"!Ref Nobody":         "unresolved",
		"!GetAtt A.Color":     "no attribute",
		"!Sub '${x'":          "not closed",
		"!Cidr [a, b, c]":     "not supported",
		"!Join [a]":           "list of 2",
		"!Select [9, [a]]":    "index",
		"!If [Missing, a, b]": "does not exist",
	} {
		tm, err := Parse("Resources:\n  A:\n    Type: T\n    Properties:\n      x: " + props + "\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tm.Properties(tm.Resources[0], testEnv("dev")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", props, err, want)
		}
	}
}
