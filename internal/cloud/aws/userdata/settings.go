package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// kubernetesSettings are the keys of settings.kubernetes that Bottlerocket images know, and what each may be. An image
// that meets another one refuses all of its user data and never joins, so others are left out and reported. Keys newer
// than this list are the price; the list follows the image's settings model.
var kubernetesSettings = map[string][]tomlKind{
	"allowed-unsafe-sysctls":                  {tomlIsArray},
	"api-server":                              {tomlIsString},
	"authentication-mode":                     {tomlIsString},
	"bootstrap-token":                         {tomlIsString},
	"cloud-provider":                          {tomlIsString},
	"cluster-certificate":                     {tomlIsString},
	"cluster-dns-ip":                          {tomlIsString, tomlIsArray},
	"cluster-domain":                          {tomlIsString},
	"cluster-name":                            {tomlIsString},
	"container-log-max-files":                 {tomlIsInteger},
	"container-log-max-size":                  {tomlIsString},
	"container-log-max-workers":               {tomlIsInteger},
	"container-log-monitor-interval":          {tomlIsString},
	"cpu-cfs-quota-enforced":                  {tomlIsBool},
	"cpu-manager-policy":                      {tomlIsString},
	"cpu-manager-policy-options":              {tomlIsArray},
	"cpu-manager-reconcile-period":            {tomlIsString},
	"credential-providers":                    {tomlIsTable},
	"device-ownership-from-security-context":  {tomlIsBool},
	"event-burst":                             {tomlIsInteger},
	"event-qps":                               {tomlIsInteger},
	"eviction-hard":                           {tomlIsTable},
	"eviction-max-pod-grace-period":           {tomlIsInteger},
	"eviction-soft":                           {tomlIsTable},
	"eviction-soft-grace-period":              {tomlIsTable},
	"hostname-override":                       {tomlIsString},
	"hostname-override-source":                {tomlIsString},
	"ids-per-pod":                             {tomlIsInteger},
	"image-gc-high-threshold-percent":         {tomlIsString, tomlIsInteger},
	"image-gc-low-threshold-percent":          {tomlIsString, tomlIsInteger},
	"kube-api-burst":                          {tomlIsInteger},
	"kube-api-qps":                            {tomlIsInteger},
	"kube-reserved":                           {tomlIsTable},
	"log-level":                               {tomlIsInteger},
	"max-pods":                                {tomlIsInteger},
	"memory-manager-policy":                   {tomlIsString},
	"memory-manager-reserved-memory":          {tomlIsTable},
	"memory-swap-behavior":                    {tomlIsString},
	"node-ip":                                 {tomlIsString},
	"node-labels":                             {tomlIsTable},
	"node-taints":                             {tomlIsTable},
	"pod-infra-container-image":               {tomlIsString},
	"pod-pids-limit":                          {tomlIsInteger},
	"provider-id":                             {tomlIsString},
	"registry-burst":                          {tomlIsInteger},
	"registry-qps":                            {tomlIsInteger},
	"reserved-cpus":                           {tomlIsString},
	"seccomp-default":                         {tomlIsBool},
	"server-certificate":                      {tomlIsString},
	"server-key":                              {tomlIsString},
	"server-tls-bootstrap":                    {tomlIsBool},
	"shutdown-grace-period":                   {tomlIsString},
	"shutdown-grace-period-for-critical-pods": {tomlIsString},
	"single-process-oom-kill":                 {tomlIsBool},
	"standalone-mode":                         {tomlIsBool},
	"static-pods":                             {tomlIsTable},
	"static-pods-enabled":                     {tomlIsBool},
	"system-reserved":                         {tomlIsTable},
	"topology-manager-policy":                 {tomlIsString},
	"topology-manager-policy-options":         {tomlIsTable},
	"topology-manager-scope":                  {tomlIsString},
}

// checkKubernetesSettings takes out keys that no image knows, says which, and refuses values of the wrong kind.
func checkKubernetesSettings(file *tomlFile, kubernetes map[string]any) (ignored []string, err error) {
	within := []string{"settings", "kubernetes"}
	for _, key := range slices.Sorted(maps.Keys(kubernetes)) {
		path := append(within, key)
		kinds, known := kubernetesSettings[key]
		if !known {
			ignored = append(ignored, fmt.Sprintf("%s, line %d: settings.kubernetes.%s is not a setting of Bottlerocket", fieldUserData, file.line(path...), short(key)))
			delete(kubernetes, key)
			continue
		}
		if err := file.checkKind(path, kubernetes[key], kinds); err != nil {
			return nil, err
		}
		if key != "node-labels" {
			continue
		}
		labels, _ := kubernetes[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if err := file.checkKind(append(path, name), labels[name], []tomlKind{tomlIsString}); err != nil {
				return nil, err
			}
		}
	}
	return ignored, nil
}

func (f *tomlFile) checkKind(path []string, value any, kinds []tomlKind) error {
	given := tomlKindOf(value)
	want := string(kinds[0])
	for i, kind := range kinds {
		if kind == given {
			return nil
		}
		if i > 0 {
			want += " or " + string(kind)
		}
	}
	return &InputError{Field: fieldUserData, Line: f.line(path...), Wrong: short(strings.Join(path, ".")) + " is " + string(given), Cure: "give " + want}
}
