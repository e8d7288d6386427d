package convert

// The fields that v1beta1 knows, for each object in which v1 has more. What is not listed has no place in v1beta1 and is
// remembered instead, so a field that v1 gains later is safe before anybody thinks of this file. A test holds the lists
// against the Go types of v1beta1.
var (
	v1beta1PoolFields       = []string{"template", "disruption", "limits", "weight"}
	v1beta1DisruptionFields = []string{"consolidationPolicy", "consolidateAfter", "expireAfter", "budgets"}
	v1beta1BudgetFields     = []string{"nodes", "schedule", "duration"}
	v1beta1ClaimFields      = []string{"taints", "startupTaints", "requirements", "nodeClassRef", "resources"}
	v1beta1ClassFields      = []string{
		"subnetSelectorTerms", "securityGroupSelectorTerms", "associatePublicIPAddress", "amiSelectorTerms", "amiFamily",
		"userData", "role", "instanceProfile", "tags", "blockDeviceMappings", "instanceStorePolicy", "detailedMonitoring",
		"metadataOptions", "context",
	}
	v1beta1TermFields        = []string{"tags", "id", "name", "owner"}
	v1beta1BlockDeviceFields = []string{
		"deleteOnTermination", "encrypted", "iops", "kmsKeyID", "snapshotID", "throughput", "volumeSize", "volumeType",
	}
)
