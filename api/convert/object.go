package convert

import (
	"fmt"
	"reflect"
	"strings"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// API groups, versions and kinds that this package knows.
const (
	coreGroup = karpv1.Group
	awsGroup  = awsv1.Group

	versionV1   = "v1"
	versionBeta = "v1beta1"

	poolKind      = karpv1.NodePoolKind
	claimKind     = karpv1.NodeClaimKind
	nodeClassKind = awsv1.EC2NodeClassKind

	poolLabel = karpv1.NodePoolLabelKey
)

// Pools answers how long the nodes of a pool live: in v1beta1 only the pool says it, in v1 each claim does (A77).
type Pools interface {
	// ExpireAfter returns the spec.template.spec.expireAfter of a v1 NodePool; found is false if there is no such pool.
	ExpireAfter(pool string) (text string, found bool, err error)
}

// converter is one kind's pair of translations.
type converter struct {
	group     string
	up, down  translate
	claimPath string       // where the fields of a claim are in the spec
	spec      reflect.Type // of v1
	filled    []filled     // see there
}

var converters = map[string]converter{
	poolKind:      {group: coreGroup, up: poolUp, down: poolDown, claimPath: "template.spec.", spec: reflect.TypeFor[karpv1.NodePoolSpec](), filled: poolFilled},
	claimKind:     claimConverter(defaultExpireAfter),
	nodeClassKind: {group: awsGroup, up: classUp, down: classDown, spec: reflect.TypeFor[awsv1.EC2NodeClassSpec](), filled: classFilled},
}

// claimConverter is the converter of a claim whose nodes live for expireAfter if the claim does not say it.
func claimConverter(expireAfter string) converter {
	up := func(spec node) error {
		if expireAfter != "" {
			spec.fill("expireAfter", expireAfter)
		}
		return claimUp(spec)
	}
	return converter{group: coreGroup, up: up, down: claimDown, spec: reflect.TypeFor[karpv1.NodeClaimSpec]()}
}

// Supports reports whether Object can convert this kind from this version, which may be v1 or v1beta1.
func Supports(apiVersion, kind string) bool {
	group, version, _ := strings.Cut(apiVersion, "/")
	c, ok := converters[kind]
	return ok && c.group == group && (version == versionV1 || version == versionBeta)
}

// Object returns a converted copy of a NodePool, NodeClaim or EC2NodeClass; apiVersion is the wanted group and version.
// Nothing outside spec, apiVersion and metadata.annotations changes, as the API server demands of a webhook. Pools may
// be nil if no claims are converted to v1, or if there is nobody to ask.
//
// The object is one of the API server's, which writes out the defaults of v1 whenever it reads one from etcd, before it asks for a
// conversion. So defaults of v1 are left to it; and a v1 object without them is part of an object, of which an applier has given
// up the rest. What is not in it must not come back, or the API server would not see it go.
func Object(in map[string]any, apiVersion string, pools Pools) (map[string]any, error) {
	return described(in, apiVersion, func() (map[string]any, error) { return object(in, apiVersion, pools, false) })
}

// described adds to an error which object it is about.
func described(in map[string]any, apiVersion string, convert func() (map[string]any, error)) (map[string]any, error) {
	out, err := convert()
	if err != nil {
		kind, _ := in["kind"].(string)
		return nil, fmt.Errorf("%s: converting from %v to %s: %w", describeObject(kind, in), in["apiVersion"], apiVersion, err)
	}
	return out, nil
}

// object converts. In a whole object, a field that is missing has its default.
func object(in map[string]any, apiVersion string, pools Pools, whole bool) (map[string]any, error) {
	kind, _ := in["kind"].(string)
	from, _ := in["apiVersion"].(string)
	if !Supports(from, kind) {
		return nil, &FieldError{Field: "apiVersion", Detail: fmt.Sprintf("%s of %q is not known here; known are NodePool and NodeClaim of %s, EC2NodeClass of %s, in %s and %s", kind, from, coreGroup, awsGroup, versionV1, versionBeta)}
	}
	c := converters[kind]
	group, version, _ := strings.Cut(apiVersion, "/")
	if group != c.group || (version != versionV1 && version != versionBeta) {
		return nil, &FieldError{Field: "apiVersion", Detail: fmt.Sprintf("a %s cannot become %q; write %s/%s or %s/%s", kind, apiVersion, c.group, versionV1, c.group, versionBeta)}
	}
	out := clone(in)
	if from == apiVersion {
		return out, nil
	}
	out["apiVersion"] = apiVersion
	root := node{tree: out}
	spec, err := root.child("spec")
	if err != nil || !root.has("spec") {
		return out, err
	}
	metadata, err := root.ensure("metadata")
	if err != nil {
		return nil, err
	}
	annotations, err := metadata.ensure("annotations")
	if err != nil {
		return nil, err
	}
	if kind == claimKind && pools != nil {
		expireAfter, err := poolExpireAfter(metadata, pools)
		if err != nil && version == versionV1 {
			// A guess could end a node that was meant to stay.
			return nil, err
		}
		c = claimConverter(expireAfter)
	}
	if version == versionV1 {
		out["spec"], err = c.toV1(spec.tree, annotations.tree, whole)
	} else {
		out["spec"], err = c.toBeta(spec.tree, annotations.tree, whole)
	}
	if len(annotations.tree) == 0 {
		delete(metadata.tree, "annotations")
	}
	return out, err
}

// toV1 converts a v1beta1 spec and exchanges what the annotations remember.
func (c converter) toV1(spec, annotations map[string]any, whole bool) (map[string]any, error) {
	remembered := takeV1(annotations, spec)
	out, err := carry(spec, remembered, c.up, c.down)
	if err == nil && len(remembered) > 0 && !c.readable(out) {
		// Whatever the annotation says goes past the API server's validation of v1. A value that v1 programs cannot even
		// read would stop them all.
		out, err = carry(spec, nil, c.up, c.down)
	}
	if err != nil {
		return nil, err
	}
	returned, err := translated(out, c.down)
	if err != nil {
		return nil, err
	}
	if !whole {
		leaveOutV1(out, spec, c.filled)
	}
	return out, giveBeta(annotations, c.claimPath, differences(spec, returned))
}

// readable tells whether v1 programs can decode a spec.
func (c converter) readable(spec map[string]any) bool {
	lenient := &checker{}
	lenient.check(spec, c.spec, "spec")
	return len(lenient.problems) == 0
}

// toBeta converts a v1 spec and exchanges what the annotations remember.
func (c converter) toBeta(spec, annotations map[string]any, whole bool) (map[string]any, error) {
	out, err := carry(spec, takeBeta(annotations, c.claimPath), c.down, c.up)
	if err != nil {
		return nil, err
	}
	if !whole {
		leaveOutBeta(out, spec, c.filled)
	}
	returned, err := translated(out, c.up)
	if err != nil {
		return nil, err
	}
	return out, giveV1(annotations, differences(spec, returned))
}

// poolExpireAfter returns what a claim's pool says about the life of its nodes.
func poolExpireAfter(metadata node, pools Pools) (string, error) {
	labels, err := metadata.child("labels")
	if err != nil {
		return "", err
	}
	pool, err := labels.text(poolLabel)
	if err != nil || pool == "" {
		return defaultExpireAfter, err
	}
	text, found, err := pools.ExpireAfter(pool)
	if err != nil {
		return "", fmt.Errorf("spec.expireAfter: reading NodePool %q: %w", pool, err)
	}
	if !found || text == "" {
		return defaultExpireAfter, nil
	}
	return text, nil
}

// describeObject names an object for an error message.
func describeObject(kind string, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" {
		name, _ = metadata["generateName"].(string)
	}
	if kind == "" {
		kind = "object without a kind"
	}
	return fmt.Sprintf("%s %q", kind, name)
}
