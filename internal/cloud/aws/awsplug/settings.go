package awsplug

import (
	"time"

	"karpenter/cloud/setting"
)

// minRefresh is how often AWS is asked for images, subnets and security groups at most.
const minRefresh = time.Minute

// Options are what the provider's settings say.
type Options struct {
	ClusterName, ClusterEndpoint, CABundle    string
	IsolatedVPC, EKSControlPlane              bool
	VMMemoryOverheadPercent                   float64
	InterruptionQueue                         string
	ReservedENIs                              int64
	DisableDryRun, EnableZonalShift           bool
	AMIRefreshInterval, SubnetRefreshInterval time.Duration
	SecurityGroupRefreshInterval              time.Duration
	Gates                                     Gates
}

// Gates are features of this provider that can be turned on and off.
type Gates struct{ NodeClassCEL, DRANVIDIAGPU, DRAEFA, RebootForRepair bool }

// Settings implements plug.Cloud.
func (o *Options) Settings(warn func(string)) []setting.Setting {
	return []setting.Setting{
		{
			Env: "CLUSTER_NAME", ID: "aws-7.3", Help: "name of the EKS cluster; required",
			Set: setting.Text(&o.ClusterName, setting.Required("the name of the EKS cluster")),
		},
		{
			Env: "CLUSTER_ENDPOINT", ID: "aws-7.3", Help: "URL of the API server that nodes join; asked from EKS if empty",
			Set: setting.Text(&o.ClusterEndpoint, setting.AbsoluteURL("https://ABC.gr7.us-west-2.eks.amazonaws.com")),
		},
		{
			Env: "CLUSTER_CA_BUNDLE", ID: "aws-7.3", Help: "certificate authority of that API server in base64; asked from EKS or taken from this process's own connection if empty",
			Set: setting.Text(&o.CABundle, setting.Certificates),
		},
		{
			Env: "ISOLATED_VPC", ID: "aws-7.3", Default: "false", Bool: true, Help: "AWS services without a VPC endpoint cannot be reached: Pricing and IAM are not asked",
			Set: setting.Bool(&o.IsolatedVPC),
		},
		{
			Env: "EKS_CONTROL_PLANE", ID: "aws-7.3", Default: "false", Bool: true, Help: "the control plane is EKS: its version is asked from EKS",
			Set: setting.Bool(&o.EKSControlPlane),
		},
		{
			Env: "VM_MEMORY_OVERHEAD_PERCENT", ID: "aws-7.3", Default: "0.075", Help: "share of memory that instances are expected to lack, until one has been seen",
			Set: setting.Share(&o.VMMemoryOverheadPercent),
		},
		{
			Env: "INTERRUPTION_QUEUE", ID: "aws-7.3", Help: "name of the SQS queue with notices of interruption; without it there are none",
			Set: setting.Text(&o.InterruptionQueue),
		},
		{
			Env: "RESERVED_ENIS", ID: "aws-7.3", Default: "0", Help: "network interfaces that are kept from pods",
			Set: setting.Integer(&o.ReservedENIs, 0, 1000),
		},
		{
			Env: "DISABLE_DRY_RUN", ID: "aws-7.3", Default: "false", Bool: true, Help: "do not try whether a class can launch",
			Set: setting.Bool(&o.DisableDryRun),
		},
		{
			Env: "ENABLE_ZONAL_SHIFT", ID: "aws-7.3", Default: "false", Bool: true, Help: "keep launches out of zones that the cluster is shifted away from",
			Set: setting.Bool(&o.EnableZonalShift),
		},
		{
			Env: "AMI_REFRESH_INTERVAL", ID: "aws-7.3", Default: "1m", Help: "how often images are looked up; a minute or more",
			Set: setting.Duration(&o.AMIRefreshInterval, minRefresh),
		},
		{
			Env: "SUBNET_REFRESH_INTERVAL", ID: "aws-7.3", Default: "1m", Help: "how often subnets are looked up; a minute or more",
			Set: setting.Duration(&o.SubnetRefreshInterval, minRefresh),
		},
		{
			Env: "SECURITY_GROUP_REFRESH_INTERVAL", ID: "aws-7.3", Default: "1m", Help: "how often security groups are looked up; a minute or more",
			Set: setting.Duration(&o.SecurityGroupRefreshInterval, minRefresh),
		},
		setting.Gates(setting.Setting{Env: "AWS_FEATURE_GATES", ID: "aws-7.3", Help: "features of the AWS provider to turn on or off, as FEATURE_GATES"}, warn,
			setting.Gate{Name: "NodeClassCEL", Into: &o.Gates.NodeClassCEL},
			setting.Gate{Name: "DRANVIDIAGPU", Into: &o.Gates.DRANVIDIAGPU, Absent: true},
			setting.Gate{Name: "DRAEFA", Into: &o.Gates.DRAEFA, Absent: true},
			setting.Gate{Name: "RebootForRepair", Into: &o.Gates.RebootForRepair},
		),
	}
}
