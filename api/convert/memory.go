package convert

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	awsv1 "karpenter/api/aws/v1"
)

// Annotations that remember what the other version cannot say. The first four have the names and contents that clusters
// converted by Karpenter 1.0 carry, so such a cluster can be taken over as it is; the last two hold the rest.
const (
	// KubeletAnnotation, on a v1 NodePool or NodeClaim, holds the kubelet settings that v1beta1 had there, as JSON. They
	// stay in force for that pool: they win over those of its class.
	KubeletAnnotation = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
	// ClassRefAnnotation, on a v1 NodePool or NodeClaim, holds the nodeClassRef as v1beta1 had it.
	ClassRefAnnotation = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
	// UbuntuAnnotation, on a v1 EC2NodeClass that was one for Ubuntu, lists what was put in its place.
	UbuntuAnnotation = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"
	// AliasVersionAnnotation, on a v1beta1 EC2NodeClass, pins the version of its family's image. It is read, not written.
	AliasVersionAnnotation = "compatibility.karpenter.k8s.aws/v1-alias-version"

	// BetaSpecAnnotation, on a v1 object, holds the parts of the spec that were written differently in v1beta1: a JSON
	// object from path to value, null for a part that was left out.
	BetaSpecAnnotation = "compatibility.karpenter.sh/v1beta1-spec"
	// SpecAnnotation, on a v1beta1 object, holds in the same way what only v1 can say.
	SpecAnnotation = "compatibility.karpenter.sh/v1-spec"
)

// The words of UbuntuAnnotation.
const (
	ubuntuFamily  = "amiFamily"
	ubuntuDevices = "blockDeviceMappings"
	ubuntuNoImage = "incompatible"
)

// take removes an annotation and returns the object that it holds. What is not a JSON object stays where it is.
func take(annotations map[string]any, name string) (map[string]any, bool) {
	text, ok := annotations[name].(string)
	if !ok {
		return nil, false
	}
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil || value == nil {
		return nil, false
	}
	delete(annotations, name)
	return value, true
}

func give(annotations map[string]any, name string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		annotations[name] = string(text)
	}
	return err
}

// takeBeta reads what a v1 object remembers of v1beta1; claimPath is where the fields of a claim are in its spec.
func takeBeta(annotations map[string]any, claimPath string) memory {
	delete(annotations, SpecAnnotation) // belongs on the other side; here it would only lie in wait
	out := memory{}
	if remembered, ok := take(annotations, BetaSpecAnnotation); ok {
		out = remembered
	}
	if kubelet, ok := take(annotations, KubeletAnnotation); ok {
		out[claimPath+"kubelet"] = kubelet
	}
	if ref, ok := take(annotations, ClassRefAnnotation); ok {
		out[claimPath+"nodeClassRef"] = ref
	}
	if words, ok := annotations[UbuntuAnnotation].(string); ok {
		delete(annotations, UbuntuAnnotation)
		for word := range strings.SplitSeq(words, ",") {
			switch strings.TrimSpace(word) {
			case ubuntuFamily:
				out["amiFamily"] = familyUbuntu
			case ubuntuDevices:
				out["blockDeviceMappings"] = nil
			case ubuntuNoImage:
				out["amiSelectorTerms"] = nil
			}
		}
	}
	return out
}

// giveBeta is the opposite of takeBeta.
func giveBeta(annotations map[string]any, claimPath string, remembered memory) error {
	delete(annotations, BetaSpecAnnotation)
	for _, own := range []struct{ path, annotation string }{{claimPath + "kubelet", KubeletAnnotation}, {claimPath + "nodeClassRef", ClassRefAnnotation}} {
		value := remembered[own.path]
		if value == nil {
			continue
		}
		delete(remembered, own.path)
		if err := give(annotations, own.annotation, value); err != nil {
			return err
		}
	}
	if remembered["amiFamily"] == familyUbuntu {
		delete(remembered, "amiFamily")
		words := []string{ubuntuFamily}
		for _, absent := range []struct{ path, word string }{{"blockDeviceMappings", ubuntuDevices}, {"amiSelectorTerms", ubuntuNoImage}} {
			if value, ok := remembered[absent.path]; ok && value == nil {
				delete(remembered, absent.path)
				words = append(words, absent.word)
			}
		}
		annotations[UbuntuAnnotation] = strings.Join(words, ",")
	}
	if len(remembered) == 0 {
		return nil
	}
	return give(annotations, BetaSpecAnnotation, map[string]any(remembered))
}

// takeV1 reads what a v1beta1 object remembers of v1.
func takeV1(annotations, spec map[string]any) memory {
	delete(annotations, BetaSpecAnnotation)
	out := memory{}
	version, pinned := annotations[AliasVersionAnnotation].(string)
	family, _ := spec["amiFamily"].(string)
	alias := aliasFamilies[family] + "@" + version
	if _, err := awsv1.ParseAlias(alias); pinned && err == nil {
		delete(annotations, AliasVersionAnnotation)
		out["amiSelectorTerms"] = []any{map[string]any{"alias": alias}}
	}
	if remembered, ok := take(annotations, SpecAnnotation); ok {
		for path, value := range remembered {
			out[path] = value
		}
	}
	return out
}

func giveV1(annotations map[string]any, remembered memory) error {
	if len(remembered) == 0 {
		return nil
	}
	return give(annotations, SpecAnnotation, map[string]any(remembered))
}
