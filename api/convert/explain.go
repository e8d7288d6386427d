package convert

import (
	"fmt"
	"slices"
)

// explain warns of everything in a v1beta1 object that is not quite the same in v1, and replaces annotations whose names
// have changed.
func explain(object node, pools Pools, r *report) {
	spec, _ := object.child("spec")
	switch object.tree["kind"] {
	case poolKind:
		template, _ := spec.child("template")
		claim, _ := template.child("spec")
		explainDisruption(spec, r)
		explainClaim(claim, r)
		if claim.has("weight") {
			r.warn("spec.template.spec.weight: moved to spec.weight")
		}
		metadata, _ := template.child("metadata")
		annotations, _ := metadata.child("annotations")
		for _, old := range []string{coreGroup + "/do-not-consolidate", coreGroup + "/do-not-evict"} {
			if annotations.has(old) {
				annotations.fill(coreGroup+"/do-not-disrupt", annotations.tree[old])
				delete(annotations.tree, old)
				r.warn("spec.template.metadata.annotations[%s]: is called %s/do-not-disrupt now", old, coreGroup)
			}
		}
	case claimKind:
		explainClaim(spec, r)
		if spec.has("kubelet") {
			r.warn("spec.kubelet: kept in the annotation %s; in v1 these settings belong into spec.kubelet of the class", KubeletAnnotation)
		}
		metadata, _ := object.child("metadata")
		labels, _ := metadata.child("labels")
		pool, _ := labels.text(poolLabel)
		if _, found, _ := pools.ExpireAfter(pool); !found {
			r.warn("spec.expireAfter: set to %s, because the claim's NodePool is not part of the input", defaultExpireAfter)
		}
	case nodeClassKind:
		explainClass(spec, r)
	}
}

func explainDisruption(spec node, r *report) {
	disruption, _ := spec.child("disruption")
	if expire, _ := disruption.text("expireAfter"); expire != "Never" {
		if expire == "" {
			expire = defaultExpireAfter
		}
		r.warn("spec.disruption.expireAfter: %s moved to spec.template.spec.expireAfter, where it is strict: at that age a node is drained without waiting for budgets or for a replacement", expire)
	}
	budgets, _ := disruption.items("budgets")
	for _, budget := range budgets {
		if budget.has("schedule") && !budget.has("duration") {
			r.warn("%s.duration: set to %s, because a schedule needs one; each time that the schedule names counts for that long", budget.path, defaultBudgetDuration)
		}
	}
}

func explainClaim(claim node, r *report) {
	if !claim.has("nodeClassRef") {
		r.warn("%s: was missing; set to the EC2NodeClass called %s", claim.field("nodeClassRef"), defaultNodeClassName)
	}
}

func explainClass(spec node, r *report) {
	terms, _ := spec.items("amiSelectorTerms")
	switch family, _ := spec.text("amiFamily"); {
	case family == familyUbuntu && len(terms) == 0:
		r.warn("spec.amiSelectorTerms: v1 has no default image for Ubuntu; the class will not be Ready until %q is replaced, for example by {name: ubuntu-eks/k8s_1.33/images/*, owner: \"099720109477\"}", noImage)
		fallthrough
	case family == familyUbuntu:
		r.warn("spec.amiFamily: Ubuntu became AL2, which boots the same way, with the root volume on /dev/sda1")
	case family == familyCustom && len(terms) == 0:
		r.warn("spec.amiSelectorTerms: is needed with amiFamily Custom; the class will not be Ready until %q is replaced", noImage)
	case family == familyCustom:
		r.warn("spec.userData: with amiFamily Custom, v1 expects nodes to register with the taint karpenter.sh/unregistered:NoExecute; make sure that userData does it")
	}
}

// moveKubelets moves the kubelet settings of converted pools to their classes (A68), where all pools of a class agree.
func moveKubelets(entries []*entry) {
	users := map[string][]map[string]any{} // kubelet settings by class, nil for a pool without
	for _, e := range entries {
		for _, object := range e.current() {
			if object["kind"] == poolKind {
				users[classOf(object)] = append(users[classOf(object)], kubeletOf(object))
			}
		}
	}
	for _, e := range entries {
		for _, pool := range e.out {
			kubelet := kubeletOf(pool)
			if pool["kind"] != poolKind || kubelet == nil {
				continue
			}
			if why := giveKubelet(entries, classOf(pool), kubelet, users[classOf(pool)]); why != "" {
				e.warn("spec.template.spec.kubelet: kept in the annotation %s, because %s; in v1 these settings belong into spec.kubelet of the class", KubeletAnnotation, why)
				continue
			}
			forget(pool, KubeletAnnotation)
			e.warn("spec.template.spec.kubelet: moved to spec.kubelet of EC2NodeClass %q", classOf(pool))
		}
	}
}

// classOf returns the name of a pool's class, or "" if that is of another provider.
func classOf(pool map[string]any) string {
	ref, _ := lookup(pool, "spec", "template", "spec", "nodeClassRef").(map[string]any)
	if ref["group"] != awsGroup || ref["kind"] != nodeClassKind {
		return ""
	}
	name, _ := ref["name"].(string)
	return name
}

// giveKubelet puts settings into a class, or says why not.
func giveKubelet(entries []*entry, name string, kubelet map[string]any, users []map[string]any) string {
	if name == "" {
		return "its class is not an EC2NodeClass"
	}
	if slices.ContainsFunc(users, func(other map[string]any) bool { return !equal(other, kubelet) }) {
		return fmt.Sprintf("another NodePool of EC2NodeClass %q has other settings", name)
	}
	for _, e := range entries {
		for i, class := range e.current() {
			if class["kind"] != nodeClassKind || nameOf(class) != name {
				continue
			}
			spec, ok := class["spec"].(map[string]any)
			if !ok {
				continue
			}
			if spec["kubelet"] != nil && !equal(spec["kubelet"], any(kubelet)) {
				return fmt.Sprintf("EC2NodeClass %q has other settings", name)
			}
			if spec["kubelet"] == nil {
				changed := withPart(spec, "kubelet", kubelet, true)
				if len(e.out) == 0 {
					e.out = []map[string]any{clone(class)}
				}
				e.out[i]["spec"] = changed
			}
			return ""
		}
	}
	return fmt.Sprintf("EC2NodeClass %q is not part of the input", name)
}
