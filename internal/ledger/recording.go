package ledger

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

const (
	// RecordingKind is the kind that a recording has as a document.
	RecordingKind = "KarpenterRecording"
	// RecordingVersion is the version of the format that is written. Fields may be added to a version, never changed.
	RecordingVersion = 1
	// maxRecording bounds what a zipped recording may grow to; that of a hundred thousand pods is some 100 MiB.
	maxRecording = 4 << 30
)

// Recording is everything that decisions are made from, at one moment.
type Recording struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Name is that of Entry.Input; empty for a recording that no decision was made from.
	Name string    `json:"name,omitempty"`
	At   time.Time `json:"at"`
	// Made is the version of the program that made it.
	Made    string  `json:"made,omitempty"`
	Options Options `json:"options"`
	// Facts is what objects do not say.
	Facts Facts `json:"facts"`
	// Answer is what was decided; nil if nothing was.
	Answer *Answer `json:"answer,omitempty"`
	// Classes holds what each node class can launch, by its name, with prices and stock-outs as they were known; pools find theirs by
	// nodeClassRef.name. The name state.AnyClass stands for every class without a list of its own.
	Classes map[string]*dump.Catalog `json:"classes"`
	// Objects is a Kubernetes List as kubectl prints it, with pods trimmed to what planning reads.
	Objects json.RawMessage `json:"objects"`
}

// Options are those of the controller.
type Options struct {
	// Reading says how objects are read.
	Reading             state.Options `json:"reading"`
	IgnorePreferences   bool          `json:"ignorePreferences,omitempty"`
	BestEffortMinValues bool          `json:"bestEffortMinValues,omitempty"`
	MaxTypes            int           `json:"maxTypes,omitempty"`
	// Quick says that pods could not wait for the best plan.
	Quick      bool `json:"quick,omitempty"`
	SpotToSpot bool `json:"spotToSpot,omitempty"`
	// TerminateFirstDrift and TerminateFirstRepair let nodes in full reservations be removed first.
	TerminateFirstDrift  bool `json:"terminateFirstDrift,omitempty"`
	TerminateFirstRepair bool `json:"terminateFirstRepair,omitempty"`
	// Turn counts decisions about nodes.
	Turn int `json:"turn,omitempty"`
}

// NewOptions writes the engine's options down.
func NewOptions(reading state.Options, o disrupt.Options) Options {
	return Options{
		Reading: reading, IgnorePreferences: o.Pack.IgnorePreferences, BestEffortMinValues: o.Pack.BestEffortMinValues,
		MaxTypes: o.Pack.MaxTypes, Quick: o.Pack.Quick, SpotToSpot: o.SpotToSpot, Turn: o.Turn,
		TerminateFirstDrift: o.TerminateFirstDrift, TerminateFirstRepair: o.TerminateFirstRepair,
	}
}

// Pack are the options of a plan.
func (o Options) Pack() pack.Options {
	return pack.Options{
		IgnorePreferences: o.IgnorePreferences, BestEffortMinValues: o.BestEffortMinValues, MaxTypes: o.MaxTypes, Quick: o.Quick,
	}
}

// Disrupt are the options of a decision about nodes.
func (o Options) Disrupt() disrupt.Options {
	return disrupt.Options{
		Pack: o.Pack(), SpotToSpot: o.SpotToSpot, Turn: o.Turn, TerminateFirstDrift: o.TerminateFirstDrift, TerminateFirstRepair: o.TerminateFirstRepair,
	}
}

// NewRecording is a recording of a moment, without objects, classes and facts.
func NewRecording(at time.Time, reading state.Options) *Recording {
	return &Recording{Kind: RecordingKind, Version: RecordingVersion, At: at, Options: Options{Reading: reading}, Classes: map[string]*dump.Catalog{}}
}

// Record writes a view down.
func Record(view *state.View, facts Facts, opt Options, at time.Time) (*Recording, error) {
	r := NewRecording(at, opt.Reading)
	r.Options, r.Facts, r.Classes = opt, facts, view.Catalogs()
	r.Facts.Leaving, r.Facts.Shared, r.Facts.Resources = view.Leaving(), view.Shared(), view.World.Resources
	var b bytes.Buffer
	if err := view.Objects().Write(&b); err != nil {
		return nil, err
	}
	r.Objects = b.Bytes()
	return r, nil
}

// View makes the view again that the recording was made of. The problems name objects that were set aside, as they were then.
func (r *Recording) View() (*state.View, []dump.Problem, error) {
	objects, problems, err := dump.Read(r.Objects)
	if err != nil {
		return nil, nil, fmt.Errorf("recording %s: %w", r.Name, err)
	}
	view, more := r.Rebuild(objects)
	return view, append(problems, more...), nil
}

// Rebuild is View for objects that may have been changed.
func (r *Recording) Rebuild(objects *dump.Objects) (*state.View, []dump.Problem) {
	return state.Rebuild(objects, state.Record{
		Classes: r.Classes, Leaving: r.Facts.Leaving, Shared: r.Facts.Shared, Resources: r.Facts.Resources, Options: r.Options.Reading, Now: r.At,
	})
}

// World is what a plan for pods that wait is made from.
func (r *Recording) World(view *state.View) *world.Snapshot { return r.Facts.World(view) }

// Plan makes a plan for pods that wait, as provisioning does, and returns what it was made from with it.
func (r *Recording) Plan(view *state.View, opt pack.Options) (*world.Snapshot, *pack.Plan) {
	facts := r.Facts
	snap, plan, _ := facts.Plan(view, func(s *world.Snapshot) (*pack.Plan, error) { return pack.Solve(s, opt), nil })
	return snap, plan
}

// PlanBeside is Plan while static pools are being scaled.
func (r *Recording) PlanBeside(view *state.View, static []*disrupt.Scaling, opt pack.Options) (*world.Snapshot, *pack.Plan) {
	facts := r.Facts
	snap, plan, _ := facts.Plan(view, func(s *world.Snapshot) (*pack.Plan, error) { return pack.Solve(disrupt.Staged(s, static), opt), nil })
	return snap, plan
}

// Input is what a decision about nodes is made from.
func (r *Recording) Input(view *state.View) *disrupt.Input { return r.Facts.Input(view, r.At) }

// Read reads a recording, zipped or not.
func Read(data []byte) (*Recording, error) {
	if len(data) > 2 && data[0] == 0x1f && data[1] == 0x8b {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("read recording: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(z, maxRecording)); err != nil {
			return nil, fmt.Errorf("read recording: %w", err)
		}
	}
	r := &Recording{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	switch {
	case r.Kind != RecordingKind:
		return nil, fmt.Errorf("read recording: kind is %q; a recording has kind %s", r.Kind, RecordingKind)
	case r.Version < 1 || r.Version > RecordingVersion:
		return nil, fmt.Errorf("read recording: version is %d; this program reads up to %d", r.Version, RecordingVersion)
	case len(r.Objects) == 0:
		return nil, errors.New("read recording: it has no objects")
	}
	if _, err := life.NewRepairRules(r.Facts.Repair); err != nil {
		return nil, fmt.Errorf("read recording: facts.repair: %w", err)
	}
	return r, nil
}

// Write writes the recording as JSON.
func (r *Recording) Write(w io.Writer) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write recording %s: %w", r.Name, err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write recording %s: %w", r.Name, err)
	}
	return nil
}

// classWire is a catalogue in a document. Classes that share one have it written once.
type classWire struct {
	*dump.Catalog
	SameAs *string `json:"sameAs,omitempty"`
}

// plainRecording is a recording without methods.
type plainRecording Recording

// MarshalJSON writes catalogues that classes share once.
func (r *Recording) MarshalJSON() ([]byte, error) {
	classes, first := map[string]classWire{}, map[*dump.Catalog]string{}
	for _, name := range slices.Sorted(maps.Keys(r.Classes)) {
		c := r.Classes[name]
		if other, ok := first[c]; ok {
			classes[name] = classWire{SameAs: &other}
		} else {
			first[c] = name
			classes[name] = classWire{Catalog: c}
		}
	}
	return json.Marshal(struct {
		*plainRecording
		Classes map[string]classWire `json:"classes"`
		Objects json.RawMessage      `json:"objects"`
	}{(*plainRecording)(r), classes, r.Objects})
}

// UnmarshalJSON gives classes that share a catalogue the same one.
func (r *Recording) UnmarshalJSON(data []byte) error {
	doc := struct {
		*plainRecording
		Classes map[string]classWire `json:"classes"`
	}{plainRecording: (*plainRecording)(r)}
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	r.Classes = map[string]*dump.Catalog{}
	for name, c := range doc.Classes {
		if c.SameAs != nil {
			c = doc.Classes[*c.SameAs]
		}
		if c.Catalog == nil {
			return fmt.Errorf("class %q has no instanceTypes and is the same as no class that has", name)
		}
		r.Classes[name] = c.Catalog
	}
	return nil
}
