package simaws

// Quotas are an account's limits. Zero means none.
type Quotas struct {
	OnDemandVCPUs    int `json:"onDemandVCPUs"`
	SpotVCPUs        int `json:"spotVCPUs"`
	LaunchTemplates  int `json:"launchTemplates"`
	InstanceProfiles int `json:"instanceProfiles"`
}

// defaultQuotas leave room for any test that does not set its own; the two
// object counts are AWS's own defaults.
func defaultQuotas() Quotas {
	return Quotas{LaunchTemplates: 5000, InstanceProfiles: 1000}
}

func (c *call) checkQuota(t *target) *apiError {
	q := c.acct.Quotas
	switch {
	case t.capacityType == "spot" && q.SpotVCPUs > 0 && c.reg.InUse["spot"]+t.typ.VCPUs > q.SpotVCPUs:
		return fail("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
	case t.capacityType == "on-demand" && q.OnDemandVCPUs > 0 && c.reg.InUse["on-demand"]+t.typ.VCPUs > q.OnDemandVCPUs:
		return fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.", q.OnDemandVCPUs)
	}
	return nil
}
