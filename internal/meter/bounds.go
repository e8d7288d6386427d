package meter

// Bounds on series. A metric that reaches its bound is wrong about something, but the process and whoever scrapes it live.
const (
	// maxSeries is for metrics by pool, reason, zone and the like.
	maxSeries = 2_000
	// maxWide is for metrics by node and resource, or by instance type, capacity type and zone: 10,000 nodes with twelve resources,
	// 1,400 types with nine offerings. Twice the largest fleet that we measure, so that none is cut off.
	maxWide = 120_000
	// maxPods is for metrics by pod.
	maxPods = 200_000
	// maxObjects is how many objects a Conditions remembers, and so what bounds its metrics by object.
	maxObjects = 10_000
	// maxStatus is for metrics by object and condition, of which nodes and claims have about ten each.
	maxStatus = 120_000
)

// durations are the buckets of most durations: 5 ms to ten minutes, the steps that dashboards are made for.
func durations() []float64 {
	return []float64{
		.005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5,
		6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600,
	}
}

// doubling are n buckets from first, each twice the one before.
func doubling(first float64, n int) []float64 {
	buckets := make([]float64, n)
	for i := range buckets {
		buckets[i] = first
		first *= 2
	}
	return buckets
}

// objectives are the quantiles of summaries, each with the error that is allowed.
func objectives() map[float64]float64 {
	return map[float64]float64{0: 0, .5: .05, .9: .01, .99: .001, 1: 0}
}
