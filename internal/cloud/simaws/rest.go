package simaws

import (
	"net/http"
	"net/url"
	"strings"
)

// restAction names a REST operation.
type restAction struct{ service, name string }

// restRoutes maps method and path shape to an operation; * is one segment that
// the operation receives.
var restRoutes = []struct {
	method, path string
	action       restAction
}{
	{"GET", "/clusters", restAction{"eks", "ListClusters"}},
	{"POST", "/clusters", restAction{"eks", "CreateCluster"}},
	{"GET", "/clusters/*", restAction{"eks", "DescribeCluster"}},
	{"DELETE", "/clusters/*", restAction{"eks", "DeleteCluster"}},
	{"GET", "/clusters/*/access-entries", restAction{"eks", "ListAccessEntries"}},
	{"POST", "/clusters/*/access-entries", restAction{"eks", "CreateAccessEntry"}},
	{"GET", "/clusters/*/access-entries/*", restAction{"eks", "DescribeAccessEntry"}},
	{"DELETE", "/clusters/*/access-entries/*", restAction{"eks", "DeleteAccessEntry"}},
	{"GET", "/clusters/*/node-groups", restAction{"eks", "ListNodegroups"}},
	{"POST", "/clusters/*/node-groups", restAction{"eks", "CreateNodegroup"}},
	{"GET", "/clusters/*/node-groups/*", restAction{"eks", "DescribeNodegroup"}},
	{"DELETE", "/clusters/*/node-groups/*", restAction{"eks", "DeleteNodegroup"}},
	{"GET", "/managedresources", restAction{"arc-zonal-shift", "ListManagedResources"}},
	{"GET", "/managedresources/*", restAction{"arc-zonal-shift", "GetManagedResource"}},
	{"POST", "/zonalshifts", restAction{"arc-zonal-shift", "StartZonalShift"}},
	{"DELETE", "/zonalshifts/*", restAction{"arc-zonal-shift", "CancelZonalShift"}},
	{"POST", "/experimentTemplates", restAction{"fis", "CreateExperimentTemplate"}},
	{"DELETE", "/experimentTemplates/*", restAction{"fis", "DeleteExperimentTemplate"}},
	{"POST", "/experiments", restAction{"fis", "StartExperiment"}},
	{"GET", "/experiments/*", restAction{"fis", "GetExperiment"}},
}

// restRoute finds the operation of a REST request and its path parameters.
func restRoute(r *http.Request) (restAction, []string, bool) {
	got := strings.Split(strings.TrimSuffix(r.URL.EscapedPath(), "/"), "/")
	for _, route := range restRoutes {
		want := strings.Split(route.path, "/")
		if r.Method != route.method || len(got) != len(want) {
			continue
		}
		params, ok := []string{}, true
		for i, w := range want {
			if w == "*" {
				v, err := url.PathUnescape(got[i])
				ok = ok && err == nil && v != ""
				params = append(params, v)
			} else {
				ok = ok && w == got[i]
			}
		}
		if ok {
			return route.action, params, true
		}
	}
	return restAction{}, nil, false
}
