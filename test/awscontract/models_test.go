package awscontract

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The service models of botocore, which come with the aws command, say what AWS's own clients make of an answer. Every answer in
// every test here is held against them: names, required members, kinds of values, and the words that an enumeration knows.
//
// strictSince is the first release of botocore whose models know all that the simulator answers. Names and words that older ones
// lack are not judged.
const strictSince = "1.43.0"

var modelHome = sync.OnceValues(findModels)

// findModels returns the folder of the models and the version of botocore, or why there are none.
func findModels() (home struct{ folder, version string }, err error) {
	python := "python3"
	if raw, err := os.ReadFile(realCLI()); err == nil {
		first, _, _ := strings.Cut(string(raw), "\n")
		if interpreter, script := strings.CutPrefix(strings.TrimSpace(first), "#!"); script && strings.Contains(interpreter, "python") {
			python = interpreter
		}
	}
	words := append(strings.Fields(python), "-c", "import botocore; print(botocore.__path__[0]); print(botocore.__version__)")
	out, err := exec.Command(words[0], words[1:]...).Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		return home, fmt.Errorf("the models of botocore, which come with the aws command, are missing; on Debian: apt-get install -y awscli (%v)", err)
	}
	home.folder, home.version = filepath.Join(lines[0], "data"), lines[1]
	return home, nil
}

// TestModelsAreThere says in one place whether answers are held against botocore's models.
func TestModelsAreThere(t *testing.T) {
	home, err := modelHome()
	switch {
	case err != nil && os.Getenv(requireCLI) != "":
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	if versionBelow(home.version, strictSince) {
		t.Logf("botocore %s is older than %s: names and words that it lacks are not judged", home.version, strictSince)
	}
	// The judge itself must see what is wrong.
	m, err := loadModel("ec2")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`<R><instancesSet><item><amiLaunchIndex>x</amiLaunchIndex></item></instancesSet></R>`:                 "amiLaunchIndex",
		`<R><instancesSet><item><launchTime>yesterday</launchTime></item></instancesSet></R>`:                 "launchTime",
		`<R><instancesSet><item><ebsOptimized>yes</ebsOptimized></item></instancesSet></R>`:                   "ebsOptimized",
		`<R><instancesSet><item><instanceState><code>16</code></instanceState></item></instancesSet></R>`:     "",
		`<R><instancesSet><element><instanceId>i-1</instanceId></element></instancesSet></R>`:                 "element",
		`<R><instancesSet><item><instanceStatus>x</instanceStatus><code>1</code></item></instancesSet></R>`:   "instanceStatus",
		`<R><instancesSet><item><architecture>sparc</architecture></item></instancesSet></R>`:                 "sparc",
		`<R><requestId>r</requestId><instancesSet><item><tagSet></tagSet></item></instancesSet></R>`:          "",
		`<R><instancesSet><item><blockDeviceMapping><item></item></blockDeviceMapping></item></instancesSet>`: "XML",
	} {
		j := &judge{model: m, strict: true}
		j.xmlAnswer(m.Operations["RunInstances"], []byte(text))
		if got := strings.Join(j.found, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want something about %q", text, got, want)
		}
	}
}

func versionBelow(a, b string) bool {
	number := func(v string) (out []int) {
		for part := range strings.SplitSeq(v, ".") {
			n, _ := strconv.Atoi(part)
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(number(a), number(b)) < 0
}

// model is the part of a service's model that is read.
type model struct {
	Metadata   struct{ Protocol, TimestampFormat string }
	Operations map[string]*modelOperation
	Shapes     map[string]*modelShape
}

type modelOperation struct {
	Name          string
	HTTP          struct{ Method, RequestURI string }
	Output        *modelRef
	path          *regexp.Regexp
	resultWrapper string
}

type modelRef struct {
	Shape, LocationName, Location, TimestampFormat, ResultWrapper string
	Flattened                                                     bool
}

type modelShape struct {
	Type, Payload, LocationName, TimestampFormat string
	Members                                      map[string]*modelRef
	Member, Key, Value                           *modelRef
	Required, Enum                               []string
	Flattened                                    bool
}

var models sync.Map // of services, functions that return the model once it is read

// loadModel reads the newest model of a service.
func loadModel(service string) (*model, error) {
	read, _ := models.LoadOrStore(service, sync.OnceValues(func() (*model, error) { return readModel(service) }))
	return read.(func() (*model, error))()
}

func readModel(service string) (*model, error) {
	home, err := modelHome()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(home.folder, service, "*", "service-2.json*"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("botocore %s has no model of %s: %v", home.version, service, err)
	}
	slices.Sort(files)
	raw, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(files[len(files)-1], ".gz") {
		unzip, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		if raw, err = io.ReadAll(unzip); err != nil {
			return nil, err
		}
	}
	m := &model{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("the model of %s: %w", service, err)
	}
	part := regexp.MustCompile(`\\\{[^}]*\\\}`)
	for name, op := range m.Operations {
		op.Name = name
		path, _, _ := strings.Cut(op.HTTP.RequestURI, "?")
		op.path = regexp.MustCompile("^" + part.ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`) + "/?$")
		if op.Output != nil {
			op.resultWrapper = cmp.Or(op.Output.ResultWrapper, name+"Result")
		}
	}
	return m, nil
}

// judge holds one answer against a model and collects what is wrong with it.
type judge struct {
	model  *model
	strict bool
	found  []string
}

func (j *judge) say(path, format string, args ...any) {
	text := path + ": " + fmt.Sprintf(format, args...)
	for start := range known {
		if strings.HasPrefix(text, start) {
			return
		}
	}
	j.found = append(j.found, text)
}

// element is an XML element without its attributes.
type element struct {
	XMLName  xml.Name
	Text     string    `xml:",chardata"`
	Children []element `xml:",any"`
}

func (j *judge) xmlAnswer(op *modelOperation, body []byte) {
	var root element
	if err := xml.Unmarshal(body, &root); err != nil {
		j.say(op.Name, "is not XML: %v", err)
		return
	}
	if op.Output == nil {
		return
	}
	at := &root
	if j.model.Metadata.Protocol == "query" {
		i := slices.IndexFunc(root.Children, func(e element) bool { return e.XMLName.Local == op.resultWrapper })
		if i < 0 {
			if len(j.model.Shapes[op.Output.Shape].Required) > 0 {
				j.say(op.Name, "has no %s", op.resultWrapper)
			}
			return
		}
		at = &root.Children[i]
	}
	j.xmlValue(op.Name, op.Output, at)
}

// ignored are elements that every answer may have.
var ignored = []string{"requestId", "ResponseMetadata"}

// known are differences that are right, with the reason.
var known = map[string]string{
	"CreateSecurityGroup: has an element <return>":                                                          "EC2 sends it, as its reference shows, and no client reads it",
	`DescribeImages.imagesSet[].platform: is "windows"`:                                                     "EC2 writes it so; the models have it in capitals",
	"DescribeInstanceTypes.instanceTypeSet[].networkInfo.networkCards[]: has an element <interfaceTypeSet>": "younger than the models",
	`DescribeInstanceTypes.instanceTypeSet[].processorInfo.supportedFeatures[]: is "metal-compatibility"`:   "younger than the models",
}

// unlisted are shapes whose words grow by the week.
var unlisted = []string{"InstanceType"}

func (j *judge) xmlValue(path string, ref *modelRef, e *element) {
	shape := j.model.Shapes[ref.Shape]
	switch shape.Type {
	case "structure":
		j.xmlStructure(path, shape, e)
	case "list":
		if shape.Flattened || ref.Flattened {
			j.xmlValue(path, shape.Member, e)
			return
		}
		name := cmp.Or(shape.Member.LocationName, "member")
		for i := range e.Children {
			if child := &e.Children[i]; child.XMLName.Local == name {
				j.xmlValue(path+"[]", shape.Member, child)
			} else {
				j.say(path, "has an element <%s>, want <%s>", child.XMLName.Local, name)
			}
		}
	case "map":
		key, value := cmp.Or(shape.Key.LocationName, "key"), cmp.Or(shape.Value.LocationName, "value")
		entries := e.Children
		if shape.Flattened || ref.Flattened {
			entries = []element{*e}
		}
		for i := range entries {
			for k := range entries[i].Children {
				switch child := &entries[i].Children[k]; child.XMLName.Local {
				case key:
					j.xmlValue(path+"{}", shape.Key, child)
				case value:
					j.xmlValue(path+"{}", shape.Value, child)
				default:
					j.say(path, "has an element <%s> in an entry", child.XMLName.Local)
				}
			}
		}
	default:
		j.scalar(path, ref, shape, e.Text)
	}
}

func (j *judge) xmlStructure(path string, shape *modelShape, e *element) {
	byName := map[string]*modelRef{}
	for name, member := range shape.Members {
		element := cmp.Or(member.LocationName, name)
		if list := j.model.Shapes[member.Shape]; member.LocationName == "" && list.Type == "list" && (list.Flattened || member.Flattened) {
			element = cmp.Or(list.Member.LocationName, name)
		}
		byName[element] = member
	}
	seen := map[string]bool{}
	for i := range e.Children {
		child := &e.Children[i]
		name := child.XMLName.Local
		seen[name] = true
		if member := byName[name]; member != nil {
			j.xmlValue(path+"."+name, member, child)
		} else if j.strict && !slices.Contains(ignored, name) {
			j.say(path, "has an element <%s> that AWS does not have there", name)
		}
	}
	for _, name := range shape.Required {
		if member := shape.Members[name]; member.Location == "" && !seen[cmp.Or(member.LocationName, name)] {
			j.say(path, "lacks %s", name)
		}
	}
}

func (j *judge) scalar(path string, ref *modelRef, shape *modelShape, text string) {
	var err error
	switch shape.Type {
	case "integer", "long":
		_, err = strconv.ParseInt(text, 10, 64)
	case "double", "float":
		_, err = strconv.ParseFloat(text, 64)
	case "boolean":
		if text != "true" && text != "false" {
			err = fmt.Errorf("want true or false")
		}
	case "timestamp":
		if cmp.Or(ref.TimestampFormat, shape.TimestampFormat) != "unixTimestamp" {
			_, err = time.Parse(time.RFC3339Nano, text)
		}
	case "string":
		if j.strict && len(shape.Enum) > 0 && !slices.Contains(unlisted, ref.Shape) && !slices.Contains(shape.Enum, text) {
			err = fmt.Errorf("AWS knows %s", strings.Join(shape.Enum[:min(len(shape.Enum), 12)], ", "))
		}
	}
	if err != nil {
		j.say(path, "is %q, not a %s: %v", text, shape.Type, err)
	}
}

func (j *judge) jsonAnswer(op *modelOperation, body []byte) {
	if op.Output == nil || len(bytes.TrimSpace(body)) == 0 {
		return
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		j.say(op.Name, "is not JSON: %v", err)
		return
	}
	ref := op.Output
	if payload := j.model.Shapes[ref.Shape].Payload; payload != "" {
		ref = j.model.Shapes[ref.Shape].Members[payload]
	}
	j.jsonValue(op.Name, ref, value)
}

func (j *judge) jsonValue(path string, ref *modelRef, value any) {
	shape := j.model.Shapes[ref.Shape]
	wrong := func() { j.say(path, "is %v, not a %s", value, shape.Type) }
	switch v := value.(type) {
	case nil:
	case map[string]any:
		switch shape.Type {
		case "structure":
			j.jsonStructure(path, shape, v)
		case "map":
			for key, one := range v {
				j.scalar(path+"{}", shape.Key, j.model.Shapes[shape.Key.Shape], key)
				j.jsonValue(path+"."+key, shape.Value, one)
			}
		default:
			wrong()
		}
	case []any:
		if shape.Type != "list" {
			wrong()
			return
		}
		for _, one := range v {
			j.jsonValue(path+"[]", shape.Member, one)
		}
	case string:
		if shape.Type == "string" || shape.Type == "timestamp" && cmp.Or(ref.TimestampFormat, shape.TimestampFormat) == "iso8601" {
			j.scalar(path, ref, shape, v)
		} else if shape.Type != "blob" {
			wrong()
		}
	case float64:
		whole := v == math.Trunc(v)
		if !slices.Contains([]string{"double", "float", "timestamp"}, shape.Type) && !(whole && (shape.Type == "integer" || shape.Type == "long")) {
			wrong()
		}
	case bool:
		if shape.Type != "boolean" {
			wrong()
		}
	}
}

func (j *judge) jsonStructure(path string, shape *modelShape, v map[string]any) {
	byName := map[string]*modelRef{}
	for name, member := range shape.Members {
		byName[cmp.Or(member.LocationName, name)] = member
	}
	for name, one := range v {
		if member := byName[name]; member != nil {
			j.jsonValue(path+"."+name, member, one)
		} else if j.strict {
			j.say(path, "has a member %q that AWS does not have there", name)
		}
	}
	for _, name := range shape.Required {
		member := shape.Members[name]
		if _, there := v[cmp.Or(member.LocationName, name)]; member.Location == "" && !there {
			j.say(path, "lacks %s", name)
		}
	}
}

// scope finds the service in the credential scope of a signature.
var scope = regexp.MustCompile(`Credential=[^/]+/[0-9]+/[^/]+/([^/]+)/aws4_request`)

// operationOf is the operation that a request asks for, with the model of its service; nil for what has none.
func operationOf(r *http.Request, body []byte) (*model, *modelOperation) {
	signed := scope.FindStringSubmatch(r.Header.Get("Authorization"))
	if signed == nil {
		return nil, nil
	}
	m, err := loadModel(signed[1])
	if err != nil {
		return nil, nil
	}
	if _, action, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		return m, m.Operations[action]
	}
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") != "" {
		return m, m.Operations[form.Get("Action")]
	}
	for _, op := range m.Operations {
		if strings.HasPrefix(m.Metadata.Protocol, "rest") && op.HTTP.Method == r.Method && op.path.MatchString(r.URL.EscapedPath()) {
			return m, op
		}
	}
	return nil, nil
}

// judged holds every answer of a handler against the models, if there are any.
func judged(t *testing.T, handler http.Handler) http.Handler {
	home, err := modelHome()
	if err != nil {
		return handler // TestModelsAreThere says so
	}
	var told sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		m, op := operationOf(r, body)
		if op == nil {
			handler.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		j := &judge{model: m, strict: !versionBelow(home.version, strictSince)}
		switch raw := answer.Body.Bytes(); {
		case answer.Code != http.StatusOK:
		case bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")):
			j.xmlAnswer(op, raw)
		default:
			j.jsonAnswer(op, raw)
		}
		for _, found := range j.found {
			if _, twice := told.LoadOrStore(found, true); !twice {
				t.Errorf("the answer to %s is not AWS's: %s", op.Name, found)
			}
		}
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}
