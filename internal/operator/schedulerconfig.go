package operator

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const schedulerExample = `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"}]}}`

// schedulerConfig is the part of a scheduler's configuration that planning must know (P49).
type schedulerConfig struct {
	PodTopologySpread struct {
		DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	} `json:"podTopologySpread"`
}

func (o *Options) setSchedulerConfig(v string) (err error) {
	o.DefaultSpread, err = ParseSchedulerConfig(v)
	return err
}

// ParseSchedulerConfig reads SCHEDULER_CONFIG: the spread constraints for pods without any (N1).
func ParseSchedulerConfig(v string) ([]corev1.TopologySpreadConstraint, error) {
	if v == "" {
		return nil, nil
	}
	config := schedulerConfig{}
	if err := yaml.UnmarshalStrict([]byte(v), &config); err != nil {
		return nil, fmt.Errorf("must be YAML or JSON with podTopologySpread.defaultConstraints, such as %s: %w", schedulerExample, err)
	}
	type unique struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	seen := map[unique]bool{}
	for i, c := range config.PodTopologySpread.DefaultConstraints {
		err := checkConstraint(c)
		if pair := (unique{c.TopologyKey, c.WhenUnsatisfiable}); err == nil && seen[pair] {
			err = fmt.Errorf("another has topologyKey %s and whenUnsatisfiable %s, too: leave one out", pair.key, pair.when)
		} else {
			seen[pair] = true
		}
		if err != nil {
			return nil, fmt.Errorf("podTopologySpread.defaultConstraints[%d]: %w", i, err)
		}
	}
	return config.PodTopologySpread.DefaultConstraints, nil
}

// checkConstraint says what kube-scheduler would not take.
func checkConstraint(c corev1.TopologySpreadConstraint) error {
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	policy := func(p *corev1.NodeInclusionPolicy) bool { return p == nil || *p == honor || *p == ignore }
	switch {
	case c.MaxSkew <= 0:
		return fmt.Errorf("maxSkew %d: must be 1 or more", c.MaxSkew)
	case len(validation.IsQualifiedName(c.TopologyKey)) > 0:
		return fmt.Errorf("topologyKey %q: must be a label key such as topology.kubernetes.io/zone", c.TopologyKey)
	case c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway:
		return fmt.Errorf("whenUnsatisfiable %q: must be DoNotSchedule or ScheduleAnyway", c.WhenUnsatisfiable)
	case c.MinDomains != nil && *c.MinDomains <= 0:
		return fmt.Errorf("minDomains %d: must be 1 or more, or left out", *c.MinDomains)
	case c.MinDomains != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule:
		return fmt.Errorf("minDomains %d: must be left out unless whenUnsatisfiable is DoNotSchedule", *c.MinDomains)
	case !policy(c.NodeAffinityPolicy):
		return fmt.Errorf("nodeAffinityPolicy %q: must be Honor or Ignore", *c.NodeAffinityPolicy)
	case !policy(c.NodeTaintsPolicy):
		return fmt.Errorf("nodeTaintsPolicy %q: must be Honor or Ignore", *c.NodeTaintsPolicy)
	case c.LabelSelector != nil || len(c.MatchLabelKeys) > 0:
		return errors.New("labelSelector and matchLabelKeys: must be left out, they follow from each pod's Services and owner")
	}
	return nil
}
