package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
)

// verbs are what steps can do. It is filled by init because help reads it.
var verbs map[string]verb

func init() {
	verbs = map[string]verb{
		"pool":     {"pool NAME [cpu=N] [nodes=N] [budget=N] [after=DURATION] [grace=DURATION] [expire=DURATION] [capacity=spot|on-demand] [min-values=N]", "adds an EC2NodeClass and a NodePool; min-values is that of instance families", readPool},
		"expire":   {"expire NAME DURATION|never", "changes when nodes of a pool that come from now on expire", readExpire},
		"app":      {"app NAME REPLICAS CPU MEMORY [pdb=N] [protected=N] [spread=zone|host] [soft-spread=zone|host] [anti-affinity=zone|host] [prefer=ZONE]", "adds a workload; pdb is how many of its pods may be unavailable, protected how many have karpenter.sh/do-not-disrupt; spread and anti-affinity are among its own pods", readApp},
		"repair":   {"repair", "has the controller repair unhealthy nodes, also by reboots; before the first time", func(args []string) (func(*World) error, error) { return doing(args, (*World).repair) }},
		"scale":    {"scale NAME REPLICAS", "changes how many pods a workload has", readScale},
		"fault":    {"fault KIND ACTION PERCENT% [code=CODE] [status=N] [delay=DURATION]", "has calls to AWS go wrong, as the AWS simulator's faults do", readFault},
		"api":      {"api refuse|lose|conflict PERCENT%", "has writes of the controller fail: refused, done without an answer, or in conflict", readAPI},
		"lag":      {"lag DURATION", "has watches be late by up to that", readLag},
		"watch":    {"watch relist|repeat KIND, watch hold KIND DURATION [standby]", "cuts the watch of a kind, repeats its last event, or has it stand still for a while, at the leader or at those that do not lead", readWatch},
		"when":     {"when [each] before|after EFFECT STEP...", "does a step at the next effect of the controller of that name, or at each; about what the effect is about. EFFECT is as patch/Node, patch/NodeClaim/status or aws/CreateFleet, with * and ?", readWhen},
		"bind":     {"bind", "has kube-scheduler send a pod to a node; with when, although it has been tainted a moment ago", func(args []string) (func(*World) error, error) { return doing(args, (*World).bind) }},
		"crash":    {"crash", "ends the controller", func(args []string) (func(*World) error, error) { return plain(args, (*World).Crash) }},
		"replicas": {"replicas N", "has so many processes of the controller, of which one leads; before the first time", readReplicas},
		"pause":    {"pause DURATION", "has the process that leads stand still", readPause},
		"crash-at": {"crash-at N before|after", "ends the controller at its N-th effect from now, before or after it happens", readCrashAt},
		"sick":     {"sick CONDITION REASON [MINUTES]", "has a ready node say that something is wrong with it, for so long or until it is repaired; sick Ready NodeStatusUnknown stops its kubelet", readSick},
		"stock":    {"stock TYPE ZONE spot|on-demand|* COUNT", "limits how many instances there are to buy; patterns with * and ?", readStock},
		"kill":     {"kill", "ends an instance of the cluster behind the controller's back", func(args []string) (func(*World) error, error) { return doing(args, (*World).kill) }},
		"notice":   {"notice", "has EC2 take a spot instance back, with a notice", func(args []string) (func(*World) error, error) { return doing(args, (*World).notice) }},
		"delete":   {"delete nodeclaim|node", "has a user delete one", readDelete},
		"drift":    {"drift", "selects newer images for all classes", func(args []string) (func(*World) error, error) { return doing(args, (*World).drift) }},
		"protect":  {"protect", "puts karpenter.sh/do-not-disrupt on a running pod", func(args []string) (func(*World) error, error) { return doing(args, (*World).protect) }},
		"taint":    {"taint", "has somebody else taint a node of the cluster", func(args []string) (func(*World) error, error) { return doing(args, (*World).taint) }},
		"foreign":  {"foreign", "adds instances and nodes of others, some in a cluster of the same name", func(args []string) (func(*World) error, error) { return doing(args, (*World).foreign) }},
		"poison":   {"poison", "adds objects that cannot work: a pool without a class, a pod that fits nowhere, a claim that cannot be launched", func(args []string) (func(*World) error, error) { return doing(args, (*World).poison) }},
		"restore":  {"restore", "has the API server forget all NodeClaims and their nodes, as a restored etcd does", func(args []string) (func(*World) error, error) { return doing(args, (*World).restoreBackup) }},
		"calm":     {"calm", "ends everything that goes wrong", func(args []string) (func(*World) error, error) { return plain(args, (*World).calm) }},
		"end":      {"end [rest]", "looks whether everything has come right; with rest also whether no node is empty", readEnd},
	}
}

// plain is a step without arguments that cannot fail, doing one that can.
func plain(args []string, do func(*World)) (func(*World) error, error) {
	return doing(args, func(w *World) error { do(w); return nil })
}

func doing(args []string, do func(*World) error) (func(*World) error, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("%q is too much", strings.Join(args, " "))
	}
	return do, nil
}

// options reads words such as cpu=4, of which the names are known.
func options(words []string, known ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("%q is not of the form NAME=VALUE", word)
		}
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("%q is not one of %s", key, strings.Join(known, ", "))
		}
		out[key] = value
	}
	return out, nil
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no whole number from 0 on", text)
	}
	return n, nil
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration such as 30s or 5m", text)
	}
	return d, nil
}

func percent(text string) (float64, error) {
	share, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || share < 0 || share > 100 {
		return 0, fmt.Errorf("%q is no share such as 20%%", text)
	}
	return share, nil
}

func several(args []string, least int) error {
	if len(args) < least {
		return fmt.Errorf("%d of at least %d arguments are there", len(args), least)
	}
	return nil
}

func readPool(args []string) (func(*World) error, error) {
	if err := several(args, 1); err != nil {
		return nil, err
	}
	given, err := options(args[1:], "cpu", "nodes", "budget", "after", "grace", "expire", "capacity", "min-values")
	if err != nil {
		return nil, err
	}
	spec := poolSpec{name: args[0], after: -1, grace: -1, budget: -1, capacity: given["capacity"], limits: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := given[key]
		switch key {
		case "cpu", "nodes":
			_, err = resource.ParseQuantity(value)
			spec.limits[key] = value
		case "budget":
			spec.budget, err = number(value)
		case "min-values":
			spec.minValues, err = number(value)
		case "after":
			spec.after, err = duration(value)
		case "expire":
			spec.expire, err = duration(value)
		case "grace":
			spec.grace, err = duration(value)
		case "capacity":
			if value != "spot" && value != "on-demand" {
				err = fmt.Errorf("capacity %q is neither spot nor on-demand", value)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return func(w *World) error { return w.addPool(spec) }, nil
}

func readExpire(args []string) (func(*World) error, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	expire := karpv1.NillableDuration{}
	if args[1] != "never" {
		d, err := duration(args[1])
		if err != nil {
			return nil, err
		}
		expire = karpv1.NewNillableDuration(d)
	}
	return func(w *World) error {
		return w.EditPool(args[0], func(p *karpv1.NodePool) { p.Spec.Template.Spec.ExpireAfter = expire })
	}, nil
}

func readApp(args []string) (func(*World) error, error) {
	if err := several(args, 4); err != nil {
		return nil, err
	}
	a := app{name: args[0], cpu: args[2], mem: args[3], pdb: -1}
	var err error
	if a.replicas, err = number(args[1]); err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	for _, q := range args[2:4] {
		if _, err := resource.ParseQuantity(q); err != nil {
			return nil, fmt.Errorf("%q is no quantity such as 500m or 2Gi", q)
		}
	}
	given, err := options(args[4:], "pdb", "protected", "spread", "soft-spread", "anti-affinity", "prefer")
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := given[key]
		switch key {
		case "pdb":
			a.pdb, err = number(value)
		case "protected":
			a.protected, err = number(value)
		case "spread":
			a.spread, err = topologyKey(value)
		case "soft-spread":
			a.softSpread, err = topologyKey(value)
		case "anti-affinity":
			a.apart, err = topologyKey(value)
		case "prefer":
			a.prefers = value
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return func(w *World) error { return w.addApp(a) }, nil
}

func topologyKey(text string) (string, error) {
	switch text {
	case "zone":
		return corev1.LabelTopologyZone, nil
	case "host":
		return corev1.LabelHostname, nil
	}
	return "", fmt.Errorf("%q is neither zone nor host", text)
}

func readScale(args []string) (func(*World) error, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	n, err := number(args[1])
	if err != nil {
		return nil, err
	}
	return func(w *World) error { return w.Scale(args[0], n) }, nil
}

func readFault(args []string) (func(*World) error, error) {
	if err := several(args, 3); err != nil {
		return nil, err
	}
	share, err := percent(args[2])
	if err != nil {
		return nil, err
	}
	f := simaws.Fault{Kind: simaws.FaultKind(args[0]), Action: args[1], Percent: share}
	given, err := options(args[3:], "code", "status", "delay")
	if err != nil {
		return nil, err
	}
	f.Code = given["code"]
	if text := given["status"]; text != "" {
		if f.Status, err = number(text); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
	}
	if text := given["delay"]; text != "" {
		d, err := duration(text)
		if err != nil {
			return nil, fmt.Errorf("delay: %w", err)
		}
		f.Delay = simaws.Duration(d)
	}
	if f.Kind == simaws.FaultHang || f.Kind == simaws.FaultLatency {
		return nil, fmt.Errorf("fault %s is for real time only; use drop", f.Kind)
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return func(w *World) error { return w.aws.AddFault(f) }, nil
}

func readAPI(args []string) (func(*World) error, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	share, err := percent(args[1])
	if err != nil {
		return nil, err
	}
	switch args[0] {
	case "refuse", "lose", "conflict":
		return func(w *World) error { w.api[args[0]] = share; return nil }, nil
	}
	return nil, fmt.Errorf("%q is not refuse, lose or conflict", args[0])
}

func readLag(args []string) (func(*World) error, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	d, err := duration(args[0])
	if err != nil {
		return nil, err
	}
	return func(w *World) error { w.lag = max(d, time.Millisecond); return nil }, nil
}

func readWatch(args []string) (func(*World) error, error) {
	if len(args) < 2 || len(args) != 2 && args[0] != "hold" {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	if !slices.Contains(watched, args[1]) {
		return nil, fmt.Errorf("%q is not one of %s", args[1], strings.Join(watched, ", "))
	}
	switch args[0] {
	case "hold":
		if len(args) < 3 || len(args) > 4 || len(args) == 4 && args[3] != "standby" {
			return nil, fmt.Errorf("%q is no duration, with or without standby", strings.Join(args[2:], " "))
		}
		d, err := duration(args[2])
		if err != nil {
			return nil, err
		}
		return func(w *World) error { w.hold(args[1], d, len(args) == 4); return nil }, nil
	case "relist", "repeat":
	default:
		return nil, fmt.Errorf("%q is not relist, repeat or hold", args[0])
	}
	return func(w *World) error { w.disturbWatch(args[0], args[1]); return nil }, nil
}

func readCrashAt(args []string) (func(*World) error, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	n, err := number(args[0])
	if err != nil {
		return nil, err
	}
	if n == 0 || args[1] != "before" && args[1] != "after" {
		return nil, fmt.Errorf("%q is no number from 1 on with before or after", strings.Join(args, " "))
	}
	return func(w *World) error {
		w.crashes = append(w.crashes, crashPoint{w.effects + n, args[1] == "after"})
		return nil
	}, nil
}

func readStock(args []string) (func(*World) error, error) {
	if len(args) != 4 {
		return nil, fmt.Errorf("%d arguments are there", len(args))
	}
	n, err := number(args[3])
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand, "*"}, args[2]) {
		return nil, fmt.Errorf("capacity type %q is not spot, on-demand or *", args[2])
	}
	rule := simaws.StockRule{Type: args[0], Zone: args[1], CapacityType: args[2], Count: n}
	return func(w *World) error { return w.aws.SetStock(rule) }, nil
}

func readEnd(args []string) (func(*World) error, error) {
	if len(args) == 1 && args[0] == "rest" {
		return func(w *World) error {
			w.rest = true
			return w.Settled()
		}, nil
	}
	return doing(args, (*World).Settled)
}

func readDelete(args []string) (func(*World) error, error) {
	if len(args) != 1 || args[0] != "nodeclaim" && args[0] != "node" {
		return nil, fmt.Errorf("%q is neither nodeclaim nor node", strings.Join(args, " "))
	}
	return func(w *World) error { return w.deleteOne(args[0]) }, nil
}
