package main

import (
	"context"
	"karpenter/cloud/controller"
	"karpenter/cloud/plug"
	"karpenter/cloud/setting"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// main is the controller with this provider alone.
func main() { controller.Main("0.1.0", Plugin()) }

// Plugin is the provider as the controller takes it.
func Plugin() plug.Plugin {
	return plug.Plugin{
		Name: "rack", Kind: Kind(), New: func() plug.Cloud { return &Cloud{} },
		Help: "With provider rack servers are files in the folder RACK_DIR.", Example: "RACK_DIR=/var/lib/rack",
	}
}

// Cloud is the provider of a process.
type Cloud struct {
	dir  string
	room int
	rack *Rack
}

// Settings implements plug.Cloud.
func (c *Cloud) Settings(func(string)) []setting.Setting {
	return []setting.Setting{
		{Env: "RACK_DIR", Help: "folder that has a file for each server; required", Set: setting.Text(&c.dir, setting.Required("a folder"))},
		{Env: "RACK_ROOM", Default: "20", Help: "how many servers there is room for", Set: setting.Integer(&c.room, 1, 1000)},
	}
}

// Connect implements plug.Cloud.
func (c *Cloud) Connect(context.Context, plug.Process) error {
	c.rack = &Rack{Dir: c.dir, Room: func() int { return c.room }}
	return nil
}

// Find implements plug.Cloud: the folder must be there.
func (c *Cloud) Find(context.Context) error {
	_, err := c.rack.List()
	return err
}

// Wire implements plug.Cloud.
func (c *Cloud) Wire(ctx context.Context, parts plug.Parts) (*plug.Wired, error) {
	classes := &plug.Classes[*RackNodeClass]{}
	if err := classes.Follow(ctx, parts.Manager.GetCache(), &RackNodeClass{}); err != nil {
		return nil, err
	}
	return &plug.Wired{
		Provider:  &Provider{Rack: c.rack, Class: classes.Get, Now: parts.Clock.Now, Fence: parts.Fence},
		Resources: resources,
		Version: func(name string) string {
			if class := classes.Get(name); class != nil {
				return class.Spec.Image
			}
			return ""
		},
		About:       func() plug.About { return plug.About{Cluster: c.dir} },
		Reconcilers: []plug.Reconciler{&judge{parts}},
	}, nil
}

// judge says of each class whether it can be used.
type judge struct{ plug.Parts }

// Register implements plug.Reconciler.
func (j *judge) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclass").For(&RackNodeClass{}).Complete(j)
}

// Reconcile judges one class.
func (j *judge) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	c, class := j.Manager.GetClient(), &RackNodeClass{}
	if err := c.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := class.DeepCopyObject().(*RackNodeClass)
	if class.Spec.Image == "" {
		class.conditions().SetFalse("ImageReady", "NoImage", "spec.image is empty: name an image", j.Clock.Now())
	} else {
		class.conditions().SetTrue("ImageReady", j.Clock.Now())
	}
	return reconcile.Result{}, c.Status().Patch(ctx, class, client.MergeFrom(before))
}
