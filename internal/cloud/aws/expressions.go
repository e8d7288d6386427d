package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/cloud/aws/formula"
	"karpenter/internal/cloud/aws/shape"
)

// Amounts that expressions give are rounded up to these, so that types that hardly differ share a launch template.
const (
	roundMillicores = 10
	roundMiB        = 16
)

// expression is one that has been read.
type expression struct {
	awsv1.KubeletExpression
	formula *formula.Formula
}

// kubelets gives the kubelet settings of a class by instance. Without expressions they are the same for all.
type kubelets struct {
	settings    shape.Settings
	plain       *awsv1.KubeletConfiguration // what is no expression
	expressions []expression
}

// kubelets reads the expressions of the class that the settings were made from. What cannot be read is a problem, and is left
// out; so is everything where expressions are turned off.
func (p *Provider) kubelets(s shape.Settings) (*kubelets, field.ErrorList) {
	k := &kubelets{settings: s, plain: s.Kubelet}
	found := s.Kubelet.Expressions()
	if len(found) == 0 {
		return k, nil
	}
	k.plain = s.Kubelet.DeepCopy()
	k.plain.MaxPodsExpression = ""
	var problems field.ErrorList
	for _, e := range found {
		delete(reservedBy(k.plain, e.Field), e.Key)
		if !p.opt.KubeletExpressions {
			continue
		}
		f, err := formula.Parse(e.Text)
		if err != nil {
			problems = append(problems, field.Invalid(e.Path(), e.Text, err.Error()))
			continue
		}
		k.expressions = append(k.expressions, expression{e, f})
	}
	k.settings.Kubelet = k.plain
	return k, problems
}

// reservedBy is kubeReserved or systemReserved.
func reservedBy(k *awsv1.KubeletConfiguration, name string) map[string]string {
	switch name {
	case "kubeReserved":
		return k.KubeReserved
	case "systemReserved":
		return k.SystemReserved
	}
	return nil
}

// of returns the settings for an instance. An expression that has no value for it is left out, and is a problem.
func (k *kubelets) of(m *shape.Type) (*awsv1.KubeletConfiguration, field.ErrorList) {
	if len(k.expressions) == 0 {
		return k.plain, nil
	}
	s := k.settings
	s.Kubelet = k.plain.DeepCopy()
	v := formula.Variables{
		VCPUs: m.VCPUs, MemoryMiB: m.MemoryMiB, DefaultENIs: m.DefaultENIs(), IPsPerENI: m.IPv4PerENI, MaxPods: shape.Pods(m, &s), InstanceType: m.Name,
	}
	var problems field.ErrorList
	for _, e := range k.expressions {
		n, err := e.formula.Number(v)
		if err != nil {
			problems = append(problems, field.Invalid(e.Path(), e.Text, err.Error()))
			continue
		}
		if e.Key != "" {
			reservedBy(s.Kubelet, e.Field)[e.Key] = reservedText(e.Key, n)
			continue
		}
		pods := int32(n)
		s.Kubelet.MaxPods = &pods
		v.MaxPods = shape.Pods(m, &s) // what comes after counts with it
	}
	return s.Kubelet, problems
}

// reservedText is a number as an amount of a resource, in the unit that expressions give it in.
func reservedText(resource string, n int64) string {
	up := func(to int64) int64 { return (n + to - 1) / to * to }
	switch resource {
	case "cpu":
		return fmt.Sprintf("%dm", up(roundMillicores))
	case "memory":
		return fmt.Sprintf("%dMi", up(roundMiB))
	case "ephemeral-storage":
		return fmt.Sprintf("%dGi", n)
	}
	return fmt.Sprint(n)
}

// reserves is what is reserved for the kubelet and the system, as text by which launch templates are told apart.
func reserves(k *awsv1.KubeletConfiguration) string {
	if k == nil {
		return ""
	}
	var out []string
	for _, reserved := range []map[string]string{k.KubeReserved, k.SystemReserved} {
		for _, key := range slices.Sorted(maps.Keys(reserved)) {
			out = append(out, key+"="+reserved[key])
		}
		out = append(out, ";")
	}
	return strings.Join(out, ",")
}

// checkKubelet says what is wrong with spec.kubelet, for any instance type that is known. The zero value is a pass.
func (p *Provider) checkKubelet(class *awsv1.EC2NodeClass) Verdict {
	verdict := func(reason string, problems field.ErrorList) Verdict {
		return Verdict{Reason: reason, Message: problems.ToAggregate().Error()}
	}
	if reason, problems := class.ValidateKubelet(p.opt.KubeletExpressions); reason != "" {
		return verdict(reason, problems)
	}
	in := inputs{class: class}
	k, problems := p.kubelets(p.settings(in))
	if len(problems) > 0 {
		return verdict(awsv1.ReasonKubeletExpressionInvalid, problems)
	}
	known := p.catalogue.now.Load()
	if known == nil || len(k.expressions) == 0 {
		return Verdict{}
	}
	var bad []string
	for _, m := range known.list {
		_, failed := k.of(m)
		if len(failed) > 0 {
			bad = append(bad, m.Name)
		}
		if len(problems) == 0 {
			problems = failed
		}
	}
	if len(bad) == 0 {
		return Verdict{}
	}
	v := verdict(awsv1.ReasonKubeletExpressionEvaluationFailed, problems)
	v.Message += fmt.Sprintf(" (for instance type %s", bad[0])
	if len(bad) > 1 {
		v.Message += fmt.Sprintf(" and %d others", len(bad)-1)
	}
	v.Message += ")"
	return v
}
