package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/local/plane"
)

// change is what steps that follow one another do to the cluster's objects, in the words of plan.
type change struct {
	// objects are as they will be, deleted names those that will not be.
	objects []*unstructured.Unstructured
	deleted []string
}

// changer adds what a step would do. It changes nothing.
type changer func(ctx context.Context, c *Cluster, to *change) error

// changers are the steps that plan can be asked about, by their first word. One that returns nil reads only.
var changers = map[string]func(scriptLine) (changer, error){
	"apply": changeApply, "scale": changeScale, "kubectl": changeKubectl,
}

// surprises are the steps of which nobody can know what comes of them before.
var surprises = []string{"interrupt", "storm", "terminate"}

// changeApply asks the API server what the objects would be: fields that others have set stay.
func changeApply(l scriptLine) (changer, error) {
	list, err := readManifest(l)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Cluster, to *change) error {
		for _, object := range list {
			object = object.DeepCopy()
			if err := withNamespace(c.Client, object); err != nil {
				return err
			}
			if err := plane.Apply(ctx, c.Client, object, client.DryRunAll); err != nil {
				return err
			}
			to.objects = append(to.objects, object)
		}
		return nil
	}, nil
}

func changeScale(l scriptLine) (changer, error) {
	if len(l.args) != 3 {
		return nil, errors.New("it takes a kind, a name and a number")
	}
	replicas, err := strconv.ParseInt(l.args[2], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number of replicas", l.args[2])
	}
	return func(ctx context.Context, c *Cluster, to *change) error {
		object := to.find(l.args[0], l.args[1])
		if object == nil {
			text, err := kubectl("get", l.args[0], l.args[1], "-o", "json")(ctx, c)
			if err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			object = &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(text), object); err != nil {
				return fmt.Errorf("reading %s %s: %w", l.args[0], l.args[1], err)
			}
			to.objects = append(to.objects, object)
		}
		return unstructured.SetNestedField(object.Object, replicas, "spec", "replicas")
	}, nil
}

// find is what an earlier step of the change makes of an object, or nil.
func (g *change) find(kind, name string) *unstructured.Unstructured {
	for _, o := range slices.Backward(g.objects) {
		if strings.EqualFold(o.GetKind(), kind) && o.GetName() == name {
			return o
		}
	}
	return nil
}

// changeKubectl has kubectl only say what it would do.
func changeKubectl(l scriptLine) (changer, error) {
	if len(l.args) == 0 {
		return nil, nil
	}
	switch l.args[0] {
	case "delete":
		return func(ctx context.Context, c *Cluster, to *change) error {
			text, err := kubectl(append(slices.Clone(l.args), "--dry-run=server", "-o", "name")...)(ctx, c)
			if err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			to.deleted = append(to.deleted, strings.Fields(text)...)
			return nil
		}, nil
	case "annotate", "label", "patch":
		return func(ctx context.Context, c *Cluster, to *change) error {
			text, err := kubectl(append(slices.Clone(l.args), "--dry-run=server", "-o", "json")...)(ctx, c)
			if err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(text), object); err != nil {
				return fmt.Errorf("reading what kubectl would do: %w", err)
			}
			to.objects = append(to.objects, object)
			return nil
		}, nil
	}
	return nil, nil
}
