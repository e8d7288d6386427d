package convert

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// Offline converts manifests: objects that are to be written to a file and not to be served. Unlike the webhook it sees all
// of them together, so kubelet settings can move to the class; and it leaves no annotations for a way back.
type Offline struct {
	// Version is what to convert to, v1 or v1beta1; empty means v1.
	Version string
	// InstanceProfile is used for an AWSNodeTemplate that names none.
	InstanceProfile string
}

// Outcome is what became of one object.
type Outcome struct {
	// Objects take the place of the object; none if it stays as it is. An alpha Provisioner may become two.
	Objects []map[string]any
	// Warnings say what has another meaning than before. Each begins with the field.
	Warnings []string
	// Err says why the object could not be converted.
	Err error
}

// entry is an object on its way.
type entry struct {
	in   map[string]any
	out  []map[string]any // empty while untouched
	kids []*entry         // the items of a list
	report
	err error
}

// Convert returns one outcome for each object, in order. Objects of other kinds stay as they are.
func (o Offline) Convert(objects []map[string]any) []Outcome {
	if o.Version == "" {
		o.Version = versionV1
	}
	entries := make([]*entry, len(objects))
	var flat []*entry
	for i, object := range objects {
		entries[i] = newEntry(object)
		flat = entries[i].flatten(flat)
	}
	for _, e := range flat {
		if e.in["kind"] != claimKind {
			e.convert(o, nil)
		}
	}
	pools := poolsOf(flat)
	for _, e := range flat {
		if e.in["kind"] == claimKind {
			e.convert(o, pools)
		}
	}
	if o.Version == versionV1 {
		moveKubelets(flat)
	}
	outcomes := make([]Outcome, len(entries))
	for i, e := range entries {
		outcomes[i] = e.outcome(o.Version)
	}
	return outcomes
}

func newEntry(object map[string]any) *entry {
	e := &entry{in: object}
	kind, _ := object["kind"].(string)
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		for _, item := range items {
			if tree, ok := item.(map[string]any); ok {
				e.kids = append(e.kids, newEntry(tree))
			} else {
				e.kids = append(e.kids, &entry{err: errors.New("must be an object, is " + describe(item))})
			}
		}
	}
	return e
}

func (e *entry) flatten(into []*entry) []*entry {
	into = append(into, e)
	for _, kid := range e.kids {
		into = kid.flatten(into)
	}
	return into
}

// convert fills out if the object is one of ours in another version.
func (e *entry) convert(o Offline, pools Pools) {
	if e.err != nil || e.in == nil {
		return
	}
	apiVersion, _ := e.in["apiVersion"].(string)
	kind, _ := e.in["kind"].(string)
	group, version, _ := strings.Cut(apiVersion, "/")
	var betas []map[string]any
	e.alpha = version != versionV1 && version != versionBeta
	switch {
	case group == coreGroup && version == alphaPoolVersion && kind == provisionerKind:
		betas, e.err = fromProvisioner(e.in, o.InstanceProfile, &e.report)
	case group == awsGroup && version == alphaClassVersion && kind == nodeTemplateKind:
		betas = make([]map[string]any, 1)
		betas[0], e.err = fromNodeTemplate(e.in, o.InstanceProfile, &e.report)
	case Supports(apiVersion, kind):
		if version != o.Version {
			betas = []map[string]any{clone(e.in)}
		}
	case group == coreGroup || group == awsGroup:
		e.err = unknownOf(group, version, kind, len(e.kids) > 0)
	}
	if e.err != nil {
		e.err = fmt.Errorf("%s: %w", describeObject(kind, e.in), e.err)
		return
	}
	for _, beta := range betas {
		converted, err := o.object(beta, pools, &e.report)
		if err != nil {
			e.out, e.err = nil, err
			return
		}
		e.out = append(e.out, converted)
	}
}

// unknownOf refuses what looks like ours and is not, so that it is not taken for converted.
func unknownOf(group, version, kind string, list bool) error {
	switch {
	case version == versionV1, version == versionBeta && list, version == "v1alpha1" && kind != nodeTemplateKind:
		return nil
	default:
		return &FieldError{Field: "apiVersion", Detail: fmt.Sprintf("%s/%s %s is not known; known are NodePool, NodeClaim and EC2NodeClass of v1beta1 and v1, %s of %s and %s of %s", group, version, kind, provisionerKind, alphaPoolVersion, nodeTemplateKind, alphaClassVersion)}
	}
}

// object converts one v1beta1 or v1 object and makes it fit for a file.
func (o Offline) object(in map[string]any, pools Pools, r *report) (map[string]any, error) {
	dropNulls(in)
	clean(in)
	kind, _ := in["kind"].(string)
	if err := Check(in); err != nil {
		return nil, fmt.Errorf("%s: %w", describeObject(kind, in), err)
	}
	if o.Version == versionV1 {
		explain(node{tree: in}, pools, r)
	}
	apiVersion := converters[kind].group + "/" + o.Version
	out, err := described(in, apiVersion, func() (map[string]any, error) { return object(in, apiVersion, pools, true) })
	if err != nil {
		return nil, err
	}
	if o.Version == versionV1 {
		forget(out, ClassRefAnnotation, UbuntuAnnotation, BetaSpecAnnotation)
	}
	if err := Check(out); err != nil {
		return nil, fmt.Errorf("%s: as %s: %w", describeObject(kind, in), o.Version, err)
	}
	return out, nil
}

// clean removes what the API server writes.
func clean(object map[string]any) {
	delete(object, "status")
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{
		"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion",
		"selfLink", "uid",
	} {
		delete(metadata, field)
	}
	forget(object, "kubectl.kubernetes.io/last-applied-configuration")
}

// forget removes annotations, and the map if nothing is left in it.
func forget(object map[string]any, names ...string) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range names {
		delete(annotations, name)
	}
	if annotations != nil && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

func (e *entry) outcome(version string) Outcome {
	out := Outcome{Objects: e.out, Warnings: e.warnings, Err: e.err}
	if e.kids == nil {
		return out
	}
	changed := false
	items := []any{}
	for i, kid := range e.kids {
		of := kid.outcome(version)
		for _, warning := range of.Warnings {
			out.Warnings = append(out.Warnings, fmt.Sprintf("items[%d].%s", i, warning))
		}
		if of.Err != nil {
			out.Err = errors.Join(out.Err, fmt.Errorf("items[%d]: %w", i, of.Err))
			continue
		}
		if len(of.Objects) == 0 {
			items = append(items, kid.in)
		}
		for _, object := range of.Objects {
			changed = true
			items = append(items, object)
		}
	}
	if changed && out.Err == nil {
		list := clone(e.in)
		list["items"] = items
		if apiVersion, _ := list["apiVersion"].(string); Supports(apiVersion, strings.TrimSuffix(fmt.Sprint(list["kind"]), "List")) {
			group, _, _ := strings.Cut(apiVersion, "/")
			list["apiVersion"] = group + "/" + version
		}
		out.Objects = []map[string]any{list}
	}
	return out
}

// knownPools answers for the pools of the same input.
type knownPools map[string]string

// ExpireAfter implements Pools.
func (p knownPools) ExpireAfter(pool string) (text string, found bool, err error) {
	text, found = p[pool]
	return text, found, nil
}

// current returns the object as it will be written.
func (e *entry) current() []map[string]any {
	switch {
	case e.err != nil:
		return nil
	case len(e.out) > 0:
		return e.out
	case e.in != nil:
		return []map[string]any{e.in}
	}
	return nil
}

func poolsOf(entries []*entry) knownPools {
	pools := knownPools{}
	for _, e := range entries {
		for _, object := range e.current() {
			if object["kind"] == poolKind {
				pools[nameOf(object)], _ = lookup(object, "spec", "template", "spec", "expireAfter").(string)
			}
		}
	}
	return pools
}

func nameOf(object map[string]any) string {
	name, _ := lookup(object, "metadata", "name").(string)
	return name
}

// lookup returns the value at a path, or nil.
func lookup(object map[string]any, path ...string) any {
	var value any = object
	for _, key := range path {
		tree, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = tree[key]
	}
	return value
}

// kubeletOf returns the settings that a pool carries in its annotation.
func kubeletOf(pool map[string]any) map[string]any {
	text, _ := lookup(pool, "metadata", "annotations", KubeletAnnotation).(string)
	var kubelet map[string]any
	if err := json.Unmarshal([]byte(text), &kubelet); err != nil {
		return nil
	}
	return kubelet
}
