package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/local/plane"
)

// scriptLine is a command's part of a line in a script that is in dir.
type scriptLine struct {
	dir  string
	args []string
}

// commands are what a scenario can say, by the first word.
var commands map[string]func(scriptLine) (action, error)

func init() { // a variable would depend on itself: show is a command and is used by others
	commands = map[string]func(scriptLine) (action, error){
		"apply":     parseApply,
		"scale":     parseScale,
		"kubectl":   parseKubectl,
		"wait":      parseWait,
		"expect":    parseExpect,
		"pause":     parsePause,
		"predict":   parsePredict,
		"show":      parseShow,
		"kill":      parseKill,
		"terminate": parseInstances("ec2"),
		"interrupt": parseInstances("interrupt"),
		"fault":     parseFault,
		"stock":     parseControl("stock"),
		"storm":     parseControl("storm"),
		"quotas":    parseControl("quotas"),
		"shift":     parseControl("shift"),
		"clear":     parseClear,
	}
}

func commandNames() []string { return slices.Sorted(maps.Keys(commands)) }

func parseApply(l scriptLine) (action, error) {
	list, err := readManifest(l)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *Cluster) (string, error) {
		for _, object := range list {
			object = object.DeepCopy()
			if err := withNamespace(c.Client, object); err != nil {
				return "", err
			}
			if err := plane.Apply(ctx, c.Client, object); err != nil {
				return "", err
			}
		}
		return "", nil
	}, nil
}

// readManifest reads the objects of the file that a line names.
func readManifest(l scriptLine) ([]*unstructured.Unstructured, error) {
	if len(l.args) != 1 {
		return nil, errors.New("it takes one file, named relative to the scenario")
	}
	file := l.args[0]
	if !filepath.IsAbs(file) {
		file = filepath.Join(l.dir, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	list, err := plane.Objects(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// withNamespace puts an object that names no namespace into the default one, if its kind lives in namespaces.
func withNamespace(kube client.Client, object *unstructured.Unstructured) error {
	namespaced, err := kube.IsObjectNamespaced(object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	return nil
}

func parseScale(l scriptLine) (action, error) {
	if len(l.args) != 3 {
		return nil, errors.New("it takes a kind, a name and a number, such as: scale deployment inflate 10")
	}
	replicas, err := strconv.Atoi(l.args[2])
	if err != nil || replicas < 0 {
		return nil, fmt.Errorf("%q is not a number of replicas", l.args[2])
	}
	return kubectl("scale", l.args[0], l.args[1], "--replicas="+l.args[2]), nil
}

func parseKubectl(l scriptLine) (action, error) {
	if len(l.args) == 0 {
		return nil, errors.New("it takes the arguments of kubectl")
	}
	return kubectl(l.args...), nil
}

// kubectl runs the kubectl of the control plane binary.
func kubectl(args ...string) action {
	return func(ctx context.Context, c *Cluster) (string, error) {
		cmd := exec.CommandContext(ctx, c.Kube, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...)
		// A home of its own: kubectl caches what it discovers there, by host and port, and ports are used again.
		cmd.Env = append(os.Environ(), "HOME="+c.Dir, "KUBECONFIG="+c.Kubeconfig)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out), fmt.Errorf("kubectl: %w", err)
		}
		return string(out), nil
	}
}

func parsePause(l scriptLine) (action, error) {
	if len(l.args) != 1 {
		return nil, errors.New("it takes a time, such as: pause 10s")
	}
	d, err := time.ParseDuration(l.args[0])
	if err != nil || d < 0 {
		return nil, fmt.Errorf("%q is not a time such as 30s or 2m", l.args[0])
	}
	return func(ctx context.Context, _ *Cluster) (string, error) { return "", pause(ctx, d) }, nil
}

func parseKill(l scriptLine) (action, error) {
	if len(l.args) != 1 || l.args[0] != "controller" {
		return nil, errors.New("only the controller can be killed: kill controller")
	}
	return func(_ context.Context, c *Cluster) (string, error) { return "", c.Kill() }, nil
}

// parseInstances reads commands that do something to a number of Karpenter's instances, the oldest first.
func parseInstances(how string) func(scriptLine) (action, error) {
	return func(l scriptLine) (action, error) {
		count := -1
		if len(l.args) == 1 && l.args[0] != "all" {
			var err error
			if count, err = strconv.Atoi(l.args[0]); err != nil || count < 1 {
				return nil, fmt.Errorf("%q is neither a number of instances nor all", l.args[0])
			}
		} else if len(l.args) != 1 {
			return nil, errors.New("it takes a number of instances, or all")
		}
		return func(ctx context.Context, c *Cluster) (string, error) {
			ids, err := c.Launched(how == "interrupt")
			if err != nil {
				return "", err
			}
			if count >= 0 && len(ids) < count {
				return "", fmt.Errorf("there are only %d such instances", len(ids))
			}
			if count >= 0 {
				ids = ids[:count]
			}
			return strings.Join(ids, "\n"), c.End(how == "interrupt", ids)
		}, nil
	}
}

func parseFault(l scriptLine) (action, error) {
	if len(l.args) == 0 || strings.Contains(l.args[0], "=") {
		return nil, errors.New("it takes a kind and settings, such as: fault error action=ec2:CreateFleet code=InternalError status=500")
	}
	return parseControl("faults")(scriptLine{l.dir, append([]string{"kind=" + l.args[0]}, l.args[1:]...)})
}

func parseClear(l scriptLine) (action, error) {
	if len(l.args) != 1 || l.args[0] != "faults" && l.args[0] != "stock" {
		return nil, errors.New("there are faults and stock to clear")
	}
	return control(http.MethodDelete, l.args[0], nil), nil
}

// parseControl reads settings for one of the controls of the AWS simulator.
func parseControl(path string) func(scriptLine) (action, error) {
	return func(l scriptLine) (action, error) {
		body := map[string]any{}
		for _, setting := range l.args {
			name, value, ok := strings.Cut(setting, "=")
			if !ok {
				return nil, fmt.Errorf("%q is no setting: write name=value", setting)
			}
			body[name] = value
			var number float64
			var truth bool
			if json.Unmarshal([]byte(value), &number) == nil {
				body[name] = number
			} else if json.Unmarshal([]byte(value), &truth) == nil {
				body[name] = truth
			}
		}
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		return control(http.MethodPost, path, text), nil
	}
}

// control steers the AWS simulator.
func control(method, path string, body []byte) action {
	return func(ctx context.Context, c *Cluster) (string, error) {
		if c.AWS == nil {
			return "", errors.New("this cluster has no AWS simulator; kubectl changes what is simulated in its place")
		}
		request, err := http.NewRequestWithContext(ctx, method, c.AWSURL+"/_sim/"+path, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", fmt.Errorf("steering the AWS simulator: %w", err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return "", fmt.Errorf("steering the AWS simulator: %w", err)
		}
		if response.StatusCode != http.StatusOK {
			return "", fmt.Errorf("the AWS simulator refused: %s", strings.TrimSpace(string(text)))
		}
		return strings.TrimPrefix(strings.TrimSpace(string(text)), `{"ok":true}`), nil
	}
}
