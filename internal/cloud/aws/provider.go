// Package aws makes Karpenter's instances in EC2. It is the only importer of the AWS SDK.
//
// What the package knows of AWS (instance types, prices, stock-outs, subnets, images) is kept in immutable values that a
// refresh builds beside the old ones and swaps in, so no lock is held during a call to AWS and readers never wait. What a
// node class asks for is read from its status, which the Resolve functions compute. Launching follows one rule: a batch is
// sent under the same client token and tags until EC2 answers, so that EC2 makes at most one fleet for it, and after an
// unknown outcome the instances are looked up by tag.
//
// The caller gives a clock and clients, calls the Refresh methods from time to time, and keeps the classes current through
// Options.Class.
package aws

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

// Clock is the time that the provider lives in.
type Clock = kit.Clock

// Clients are the services that the provider calls.
type Clients struct {
	EC2     *ec2.Client
	IAM     *iam.Client
	SSM     *ssm.Client
	Pricing *pricing.Client
	EKS     *eks.Client
	SQS     *sqs.Client
	Shift   *arczonalshift.Client
}

// NewClients makes clients that share a configuration. Prices are asked in the region that serves them.
func NewClients(cfg aws.Config) Clients {
	cfg = bounded(cfg)
	return Clients{
		EC2: ec2.NewFromConfig(cfg), IAM: iam.NewFromConfig(cfg), SSM: ssm.NewFromConfig(cfg),
		EKS: eks.NewFromConfig(cfg), SQS: sqs.NewFromConfig(cfg), Shift: arczonalshift.NewFromConfig(cfg),
		Pricing: pricing.NewFromConfig(cfg, func(o *pricing.Options) { o.Region = pricingRegion(cfg.Region) }),
	}
}

// Cluster is what nodes need to know of the cluster that they join, and what their tags name.
type Cluster struct {
	Name string
	// UID tells clusters of one name apart; the UID of the namespace kube-system serves. It goes into launch tokens.
	UID string
	// ARN is EKS's name for the cluster; zonal shifts are asked for by it.
	ARN      string
	Endpoint string
	// CABundle is the API server's certificate authority in base64, ServiceCIDR the range of Services.
	CABundle    string
	ServiceCIDR string
	// DNS are the addresses of the cluster's DNS service, if known. Version is the Kubernetes version as major.minor.
	DNS     []string
	Version string
}

// Options are what a Provider is made from.
type Options struct {
	Clients Clients
	Clock   Clock
	Region  string
	Cluster Cluster
	// Class returns the node class of that name with its status, or nil. It must not block, and must return the same pointer
	// for as long as the object has not changed.
	Class func(name string) *awsv1.EC2NodeClass

	// Pools returns the pools that name the class, from memory; optional. A trial launches what they allow.
	Pools func(class string) []*karpv1.NodePool

	// MemoryOverhead is the share of memory that instances are expected to lack (VM_MEMORY_OVERHEAD_PERCENT).
	MemoryOverhead float64
	// ReservedENIs is how many interfaces are kept from pods (RESERVED_ENIS).
	ReservedENIs int64
	// ReservedCapacity turns the use of capacity reservations on.
	ReservedCapacity bool
	// RebootForRepair has instances rebooted whose GPUs are usually fine after that; otherwise they are replaced.
	RebootForRepair bool
	// KubeletExpressions turns expressions in spec.kubelet on (NodeClassCEL).
	KubeletExpressions bool
	// DisableDryRun leaves out the calls that try whether a class can launch (DISABLE_DRY_RUN).
	DisableDryRun bool
	// IsolatedVPC says that services without a VPC endpoint cannot be reached: Pricing and IAM are not called.
	IsolatedVPC bool
	// ZonalShift keeps launches out of zones that the cluster is shifted away from (ENABLE_ZONAL_SHIFT). It needs Cluster.ARN.
	ZonalShift bool

	// Meter counts; nil counts nothing.
	Meter *meter.Set
	// OnStep, if set, is called before and after every step of a launch. Tests crash there.
	OnStep func(step Step, done bool)
}

// maxGathered is how many ids one call carries; EC2 takes 200 values in a filter.
const maxGathered = 200

// Provider is the AWS provider. Its methods are safe for concurrent use.
type Provider struct {
	opt       Options
	catalogue *catalogue
	prices    *prices
	stock     *kit.Stock
	shifts    *shifts
	addresses *addresses
	templates *templates
	types     *typeCache
	adjusted  adjustments
	// placements has the placement group that each class was found to name, by class; parameters what SSM answered.
	placements sync.Map
	parameters *parameters
	recent     *kit.Recent
	listed     *listed
	attempts   kit.Attempts
	learned    atomic.Pointer[memories]
	// tried has, by class, the trial that passed last.
	tried sync.Map

	describing  kit.Gather[*types.Instance]
	terminating kit.Gather[error]
	looking     kit.Gather[[]*cloud.Instance] // by batch

	// fleets, tags, reads and ends pace the calls that a burst of claims makes many of; templates have a pace of their own.
	fleets, tags, reads, ends *kit.Pace

	// launches holds one lock per batch that is being launched, so that two calls for one batch follow each other.
	launches keyed
}

// New makes a provider that knows nothing yet: RefreshTypes and RefreshPrices fill it.
func New(opt Options) *Provider {
	p := &Provider{
		opt: opt, catalogue: &catalogue{}, prices: newPrices(opt.Region), stock: kit.NewStock(opt.Clock), shifts: newShifts(opt.Clock), addresses: newAddresses(), types: &typeCache{},
	}
	p.templates = newTemplates(opt.Clients.EC2, opt.Cluster.Name, opt.Clock)
	p.parameters = newParameters(opt.Clients.SSM, opt.Clock)
	p.recent, p.listed = kit.NewRecent(opt.Clock, settled), &listed{clock: opt.Clock}
	p.describing.Ask, p.terminating.Ask, p.looking.Ask = p.describeByID, p.terminate, p.lookUpAll
	for batcher, note := range map[string]*func(int, time.Duration){
		batcherDescribe: &p.describing.Made, batcherTerminate: &p.terminating.Made, batcherLook: &p.looking.Made,
	} {
		*note = func(size int, waited time.Duration) { p.gathered(batcher, size, waited) }
	}
	p.describing.Clock, p.terminating.Clock, p.looking.Clock = opt.Clock, opt.Clock, opt.Clock
	p.describing.Most, p.terminating.Most, p.looking.Most = maxGathered, maxGathered, maxGathered
	p.fleets, p.tags, p.reads, p.ends = kit.NewPace(opt.Clock, writeError), kit.NewPace(opt.Clock, writeError), kit.NewPace(opt.Clock, writeError), kit.NewPace(opt.Clock, writeError)
	p.templates.onMake = func(done bool) { p.reach(StepTemplate, done) }
	return p
}

// Name is "aws".
func (p *Provider) Name() string { return "aws" }

var _ cloud.Provider = (*Provider)(nil)

// keyed is a set of locks by name; one that nobody holds takes no room.
type keyed struct {
	mu    sync.Mutex
	locks map[string]*counted
}

type counted struct {
	sync.Mutex
	users int
}

// lock waits for the name and returns how to let go of it.
func (k *keyed) lock(clock Clock, name string) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*counted{}
	}
	l := k.locks[name]
	if l == nil {
		l = &counted{}
		k.locks[name] = l
	}
	l.users++
	k.mu.Unlock()
	wait.Lock(clock, &l.Mutex) // it is held during calls
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, name)
		}
	}
}
