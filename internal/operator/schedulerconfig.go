package operator

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// schedulerConfig is the part of a scheduler's configuration that planning must know (P49).
type schedulerConfig struct {
	PodTopologySpread struct {
		DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	} `json:"podTopologySpread"`
}

func setSchedulerConfig(o *Options, v string) error {
	if v == "" {
		return nil
	}
	config := schedulerConfig{}
	if err := yaml.UnmarshalStrict([]byte(v), &config); err != nil {
		return fmt.Errorf("must be YAML or JSON with podTopologySpread.defaultConstraints: %w", err)
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
			return fmt.Errorf("podTopologySpread.defaultConstraints[%d]: %w", i, err)
		}
	}
	o.DefaultSpread = config.PodTopologySpread.DefaultConstraints
	return nil
}

func checkConstraint(c corev1.TopologySpreadConstraint) error {
	switch {
	case c.MaxSkew <= 0:
		return fmt.Errorf("maxSkew %d: must be 1 or more", c.MaxSkew)
	case len(validation.IsQualifiedName(c.TopologyKey)) > 0:
		return fmt.Errorf("topologyKey %q: must be a label key such as topology.kubernetes.io/zone", c.TopologyKey)
	case c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway:
		return fmt.Errorf("whenUnsatisfiable %q: must be DoNotSchedule or ScheduleAnyway", c.WhenUnsatisfiable)
	case c.LabelSelector != nil || len(c.MatchLabelKeys) > 0:
		return errors.New("labelSelector and matchLabelKeys: must be left out, they follow from each pod's Services and owner")
	}
	return nil
}
