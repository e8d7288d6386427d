package simaws

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// steer sends a control request.
func (w *world) steer(method, path, body string) (int, string) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, httptest.NewRequest(method, "/_sim/"+path, strings.NewReader(body)))
	raw, err := io.ReadAll(rec.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec.Code, string(raw)
}

func (w *world) steered(method, path, body string) string {
	w.t.Helper()
	status, answer := w.steer(method, path, body)
	if status != http.StatusOK {
		w.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

func TestControlOverHTTP(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	w.steered("POST", "stock", `{"type":"m5.*","zone":"*","capacityType":"spot","count":1,"refill":"5m"}`)
	id := launched(w.fleet("spot", 2, "m5.large@"+subnetA))[0]
	w.steered("DELETE", "stock", "")
	w.steered("POST", "faults", `{"kind":"error","action":"ec2:DescribeSubnets","code":"InternalError","status":500,"count":1}`)
	if status, _ := w.send("ec2", "DescribeSubnets"); status != 500 {
		t.Errorf("the fault gave %d", status)
	}
	w.steered("DELETE", "faults", "")
	w.steered("POST", "quotas", `{"onDemandVCPUs":2}`)
	w.steered("POST", "health", `{"instances":["`+id+`"],"check":"instance","impaired":true}`)
	w.steered("POST", "rebalance", `{"instances":["`+id+`"]}`)
	w.steered("POST", "health-event", `{"instances":["`+id+`"]}`)
	w.steered("POST", "interrupt", `{"instances":["`+id+`"]}`)
	w.steered("POST", "storm", `{"zone":"us-west-2b","percent":100,"duration":"1h"}`)
	w.steered("POST", "shift", `{"cluster":"c1","zoneId":"usw2-az1","duration":"1h"}`)
	w.steered("POST", "keys", `{"accessKey":"K","role":"node"}`)
	if got := w.steered("POST", "reservations", `{"type":"p5.48xlarge","zone":"us-west-2b","count":2,"block":true,"end":"2025-10-02T00:00:00Z"}`); !strings.Contains(got, `"cr-`) {
		t.Errorf("reservation: %s", got)
	}
	if got := pickFirst(w.must("ec2", "DescribeCapacityReservations"), "reservationType"); got != "capacity-block" {
		t.Errorf("reservation type %q", got)
	}
	w.steered("POST", "clock", `{"advance":"2m"}`)
	if got := w.steered("GET", "clock", ""); !strings.Contains(got, "12:02:00") {
		t.Errorf("clock: %s", got)
	}
	if got := w.steered("GET", "instances", ""); !strings.Contains(got, id) || !strings.Contains(got, "shutting-down") {
		t.Errorf("instances: %s", got)
	}
	if err := w.AddCluster("", Cluster{Name: "late", Endpoint: "https://late"}); err != nil {
		t.Fatal(err)
	}
	if got := w.steered("GET", "operations", ""); !strings.Contains(got, "ec2:CreateFleet") {
		t.Errorf("operations: %s", got)
	}
	state := w.steered("GET", "state", "")
	other := newTestWorld(t, nil)
	other.clock.Advance(2 * time.Minute)
	other.steered("PUT", "state", state)
	if got := other.stateOf(id); got != "shutting-down" {
		t.Errorf("moved world shows %s", got)
	}
	for _, bad := range [][3]string{
		{"POST", "faults", `{"kind":"error"}`},
		{"POST", "faults", `{"colour":"red"}`},
		{"POST", "stock", `{"count":-1}`},
		{"POST", "interrupt", `{"instances":["i-0"]}`},
		{"POST", "health", `{"check":"brain"}`},
		{"POST", "shift", `{"cluster":"none"}`},
		{"POST", "storm", `{"percent":200}`},
		{"POST", "clock", `{"advance":"soon"}`},
		{"PUT", "state", "{"},
		{"POST", "reservations", `{"type":"none"}`},
	} {
		if status, answer := w.steer(bad[0], bad[1], bad[2]); status != http.StatusBadRequest {
			t.Errorf("%v gave %d %s", bad, status, answer)
		}
	}
	if status, answer := w.steer("POST", "nothing", ""); status != http.StatusNotFound || !strings.Contains(answer, "POST faults") {
		t.Errorf("unknown control: %d %s", status, answer)
	}
}

// TestRunFollowsTheClock shows that a world that nobody calls goes on.
func TestRunFollowsTheClock(t *testing.T) {
	r := make(arrivals, 1)
	w := newTestWorld(t, func(o *Options) { o.Watcher = r })
	w.prepareLaunch()
	done := make(chan struct{})
	go func() {
		w.Run(t.Context())
		close(done)
	}()
	w.fleet("spot", 1, "m5.large@"+subnetA)
	for range 40 {
		w.clock.Advance(time.Second)
		select {
		case <-r:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Error("the instance did not join by the clock alone")
}

type arrivals chan string

func (a arrivals) Joined(m Instance)     { a <- m.InstanceID }
func (a arrivals) Left(Instance, string) {}

func TestMetadataService(t *testing.T) {
	w := newTestWorld(t, nil)
	for path, want := range map[string]string{
		"meta-data/placement/region": "us-west-2", "meta-data/iam/security-credentials/": "simulator",
		"meta-data/iam/security-credentials/simulator": "AccessKeyId", "dynamic/instance-identity/document": "accountId",
	} {
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/latest/"+path, nil))
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodPut, "/latest/api/token", nil))
	if rec.Code != 200 || rec.Header().Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
		t.Errorf("token: %d", rec.Code)
	}
}
