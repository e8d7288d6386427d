package simaws

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// serveMetadata is a small instance metadata service: enough for an SDK to find
// its region and the default account's credentials.
func (s *Sim) serveMetadata(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/latest/"), "/")
	text := map[string]string{
		"meta-data/placement/region":            s.opt.Region,
		"meta-data/placement/availability-zone": s.opt.Region + "a",
		"meta-data/instance-id":                 "i-00000000000000001",
		"meta-data/iam/security-credentials":    "simulator",
	}
	switch {
	case path == "api/token" && r.Method == http.MethodPut:
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		_, _ = io.WriteString(w, "simulated-token")
	case path == "meta-data/iam/security-credentials/simulator":
		writeDocument(w, map[string]string{
			"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "AKIASIMULATOR0000000", "SecretAccessKey": "simulated", "Token": "simulated",
			"LastUpdated": s.now().Format("2006-01-02T15:04:05Z"), "Expiration": s.now().Add(6 * session).Format("2006-01-02T15:04:05Z"),
		})
	case path == "dynamic/instance-identity/document":
		writeDocument(w, map[string]string{"region": s.opt.Region, "accountId": s.opt.Account, "instanceId": "i-00000000000000001"})
	case text[path] != "":
		_, _ = io.WriteString(w, text[path])
	default:
		http.Error(w, "not found", http.StatusNotFound)
	}
}

func writeDocument(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
