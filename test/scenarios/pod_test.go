package scenarios

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podTemplate reads what a line says about pods.
func podTemplate(w words) (*corev1.Pod, error) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.get("ns", "default"), Labels: labels(w.all("label")), Annotations: map[string]string{}}}
	if _, ok := p.Labels["app"]; !ok {
		p.Labels["app"] = w.name
	}
	requests, err := quantities(w, [2]string{"cpu", "cpu"}, [2]string{"mem", "memory"}, [2]string{"disk", "ephemeral-storage"})
	if err != nil {
		return nil, err
	}
	main := corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}
	if w.has("limits") {
		main.Resources = corev1.ResourceRequirements{Limits: requests}
	}
	for _, x := range w.all("port") {
		text, ip, _ := strings.Cut(x, "@")
		num, proto, _ := strings.Cut(text, "/")
		n, err := strconv.Atoi(num)
		if err != nil {
			return nil, err
		}
		main.Ports = append(main.Ports, corev1.ContainerPort{HostPort: int32(n), ContainerPort: int32(n), Protocol: corev1.Protocol(strings.ToUpper(proto)), HostIP: ip})
	}
	p.Spec.Containers = []corev1.Container{main}
	if err := moreContainers(p, w); err != nil {
		return nil, err
	}
	if sel := labels(w.all("select")); len(sel) > 0 {
		p.Spec.NodeSelector = sel
	}
	for _, t := range w.all("tol") {
		x := taint(t)
		tol := corev1.Toleration{Key: x.Key, Value: x.Value, Effect: x.Effect, Operator: corev1.TolerationOpEqual}
		if x.Value == "" {
			tol.Operator = corev1.TolerationOpExists
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, tol)
	}
	if w.has("tol-all") {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if v := w.get("prio", ""); v != "" {
		n, _ := strconv.Atoi(v)
		prio := int32(n)
		p.Spec.Priority = &prio
	}
	for _, name := range w.all("pvc") {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	for _, name := range w.all("ephemeral") {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	}
	for _, s := range w.all("spread") {
		c, err := spread(s, p.Labels)
		if err != nil {
			return nil, err
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
	if err := affinity(p, w); err != nil {
		return nil, err
	}
	podStatus(p, w)
	return p, nil
}

// moreContainers adds init containers, sidecars, overhead, pod-level requests and what a resize has allocated.
func moreContainers(p *corev1.Pod, w words) error {
	always := corev1.ContainerRestartPolicyAlways
	for _, x := range []struct {
		word    string
		restart *corev1.ContainerRestartPolicy
	}{{"init", nil}, {"sidecar", &always}} {
		for i, v := range w.all(x.word) {
			r, err := quantities(words{args: [][2]string{{"cpu", v}}}, [2]string{"cpu", "cpu"})
			if err != nil {
				return err
			}
			c := corev1.Container{Name: x.word + strconv.Itoa(i), RestartPolicy: x.restart, Resources: corev1.ResourceRequirements{Requests: r}}
			if port := w.get("sidecar-port", ""); port != "" && x.restart != nil {
				n, _ := strconv.Atoi(port)
				c.Ports = []corev1.ContainerPort{{HostPort: int32(n), ContainerPort: int32(n)}}
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	for word, put := range map[string]func(corev1.ResourceList){
		"overhead":  func(r corev1.ResourceList) { p.Spec.Overhead = r },
		"pod-level": func(r corev1.ResourceList) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: r} },
		"pod-limit": func(r corev1.ResourceList) { p.Spec.Resources = &corev1.ResourceRequirements{Limits: r} },
		"allocated": func(r corev1.ResourceList) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: r}}
		},
	} {
		if v := w.get(word, ""); v != "" {
			r, err := quantities(words{args: [][2]string{{"cpu", v}}}, [2]string{"cpu", "cpu"})
			if err != nil {
				return err
			}
			put(r)
		}
	}
	if w.has("dra") {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	}
	return nil
}

// spread reads key:skew[:soft][:min=3][:affinity=Ignore][:taints=Honor][:keys=a][:app=x|any|none].
func spread(text string, own map[string]string) (corev1.TopologySpreadConstraint, error) {
	f := strings.Split(text, ":")
	c := corev1.TopologySpreadConstraint{TopologyKey: key(f[0]), MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}
	c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": own["app"]}}
	for i, x := range f[1:] {
		k, v, _ := strings.Cut(x, "=")
		switch k {
		case "soft":
			c.WhenUnsatisfiable = corev1.ScheduleAnyway
		case "min":
			n, err := strconv.Atoi(v)
			if err != nil {
				return c, err
			}
			d := int32(n)
			c.MinDomains = &d
		case "affinity":
			policy := corev1.NodeInclusionPolicy(v)
			c.NodeAffinityPolicy = &policy
		case "taints":
			policy := corev1.NodeInclusionPolicy(v)
			c.NodeTaintsPolicy = &policy
		case "keys":
			c.MatchLabelKeys = strings.Split(v, ",")
		case "app":
			c.LabelSelector = target(v)
		default:
			n, err := strconv.Atoi(x)
			if err != nil || i > 0 {
				return c, err
			}
			c.MaxSkew = int32(n)
		}
	}
	return c, nil
}

// target is the selector for an app, for any pod, or for none.
func target(app string) *metav1.LabelSelector {
	switch app {
	case "any":
		return &metav1.LabelSelector{}
	case "none":
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// affinity reads need (terms by |, requirements by &), prefer ("weight key Op values"), and with/apart, which are
// key[:app=x][:soft=weight][:ns=a,b|all][:nslabel=k/v] for pod affinity and anti-affinity.
func affinity(p *corev1.Pod, w words) error {
	a := &corev1.Affinity{}
	if need := w.get("need", ""); need != "" {
		sel := &corev1.NodeSelector{}
		for _, term := range strings.Split(need, "|") {
			var t corev1.NodeSelectorTerm
			for _, text := range strings.Split(term, "&") {
				r, err := requirement(text)
				if err != nil {
					return err
				}
				t.MatchExpressions = append(t.MatchExpressions, r)
			}
			sel.NodeSelectorTerms = append(sel.NodeSelectorTerms, t)
		}
		a.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: sel}
	}
	for _, text := range w.all("prefer") {
		weight, rest, _ := strings.Cut(text, " ")
		r, err := requirement(rest)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(weight)
		if a.NodeAffinity == nil {
			a.NodeAffinity = &corev1.NodeAffinity{}
		}
		a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: int32(n), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}}})
	}
	for _, text := range w.all("with") {
		if a.PodAffinity == nil {
			a.PodAffinity = &corev1.PodAffinity{}
		}
		t, weight := podTerm(text, p.Labels)
		if weight > 0 {
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: t})
		} else {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, t)
		}
	}
	for _, text := range w.all("apart") {
		if a.PodAntiAffinity == nil {
			a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		t, weight := podTerm(text, p.Labels)
		if weight > 0 {
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: t})
		} else {
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, t)
		}
	}
	p.Spec.Affinity = a
	return nil
}

func podTerm(text string, own map[string]string) (t corev1.PodAffinityTerm, weight int32) {
	f := strings.Split(text, ":")
	t = corev1.PodAffinityTerm{TopologyKey: key(f[0]), LabelSelector: target(own["app"])}
	for _, x := range f[1:] {
		k, v, _ := strings.Cut(x, "=")
		switch k {
		case "app":
			t.LabelSelector = target(v)
		case "soft":
			n, _ := strconv.Atoi(v)
			weight = int32(max(n, 1))
		case "ns":
			if v == "all" {
				t.NamespaceSelector = &metav1.LabelSelector{}
			} else {
				t.Namespaces = strings.Split(v, ",")
			}
		case "nslabel":
			k, val, _ := strings.Cut(v, "/")
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{k: val}}
		case "keys":
			t.MatchLabelKeys = strings.Split(v, ",")
		}
	}
	return t, weight
}
