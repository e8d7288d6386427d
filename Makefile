# Run "make" to see what there is.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c

KUBE_VERSION := 1.37.1
KWOK_VERSION := 0.8.0
HELM_VERSION := 4.3.1
CAPI_VERSION := 1.14.2

# The oldest that are supported; what they are built from is in kube/oldest and tools/helm3.
OLDEST_KUBE_VERSION := 1.25.4
OLDEST_HELM_VERSION := 3.17.4

# The version is the charts'; a test holds the other places to it.
VERSION ?= $(shell awk '/^appVersion:/ {print $$2}' charts/karpenter/Chart.yaml)

# Where the files of a release will be: krew's manifest names it.
RELEASE_URL ?= https://releases.example.com/karpenter/$(VERSION)

# Programs, tests and linters are compiled in the same way, so that none of the two thousand packages is compiled twice, and without what
# only debuggers read, which takes a fifth of the time. A release is built as everybody can repeat it.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)
ifeq (,$(filter image release,$(MAKECMDGOALS)))
GOFLAGS += -gcflags=all=-dwarf=false
endif

# The compiler and the linters let more garbage gather than Go would: a quarter less time for some hundred MB. Tests do not: the program
# that they play knows GOGC, so GOTEST takes it away again.
build karpenter controller kube capi helm test lint vet page static unit race compat: export GOGC ?= 400
GOTEST := go test -exec 'env -u GOGC'

# Tools are pinned in a module file of their own, so that the product's go.mod does not know them.
# go tool would compile the standard library once more for them: it does not know GOFLAGS.
TOOL     := go run -modfile=tools/tools.mod
GOFUMPT  := $(TOOL) mvdan.cc/gofumpt
GENERATE := $(TOOL) sigs.k8s.io/controller-tools/cmd/controller-gen

# What Kubernetes $(1) is told of itself.
kube_ldflags = -s -w $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,-X $(package).gitVersion=v$(1) \
	-X $(package).gitMajor=1 -X $(package).gitMinor=$(word 2,$(subst ., ,$(1))) -X $(package).gitTreeState=clean)

# Kubernetes from source is some two thousand packages. The counter shows that it goes on.
counted = 2>&1 | awk -v total=$$(go list -deps . | wc -l) '/^[a-zA-Z0-9._~\/-]+$$/ {n++; if (n % 100 == 0) {printf "  %d of at most %d packages\n", n, total; fflush()}; next} {print}'

.DEFAULT_GOAL := help
.PHONY: help build karpenter controller kube capi helm test fetch lint vet page static tools unit race race-core compat generate bench live sim simlong image release local clean

help: ## what there is to make
	@echo "Karpenter launches nodes for pods that are unschedulable and removes nodes that are no longer needed."
	@echo
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: karpenter kube ## bin/karpenter and bin/kube, the control plane for tests and for trying things

karpenter: ## bin/karpenter alone
	@echo "building bin/karpenter"
	@go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/karpenter.new ./cmd/karpenter
	@if cmp -s bin/karpenter.new bin/karpenter; then rm bin/karpenter.new; else mv bin/karpenter.new bin/karpenter; fi # one that has not changed keeps its age, and with it the results of tests
	@cd bin && for name in kubectl-karpenter kubectl_complete-karpenter; do ln -sf karpenter $$name; done

controller: ## bin/controller alone: the program that the image holds
	@echo "building bin/controller"
	@go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/controller ./cmd/controller

kube: bin/kube ## bin/kube alone: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok

# About ten minutes on two cores the first time, half a minute to link when all packages are in Go's cache.
bin/kube: kube/go.mod kube/go.sum $(wildcard kube/*.go)
	@echo "building bin/kube: Kubernetes $(KUBE_VERSION) and kwok $(KWOK_VERSION) from source; minutes the first time, then cached"
	@cd kube && go mod download && go build -v -ldflags '$(call kube_ldflags,$(KUBE_VERSION)) -X sigs.k8s.io/kwok/pkg/consts.Version=$(KWOK_VERSION)' -o ../bin/kube . $(counted)
	@cd bin && for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok; do ln -sf kube $$name; done
	@touch bin/kube

capi: bin/capi-manager ## bin/capi-manager alone: Cluster API's core controllers, and their CRDs in bin/capi.yaml

# The program as it is, built with the Kubernetes libraries of bin/kube, so that most of its packages are compiled already.
bin/capi-manager: kube/capi/go.mod kube/capi/go.sum
	@echo "building bin/capi-manager: Cluster API $(CAPI_VERSION) from source; minutes the first time, then cached"
	@cd kube/capi && go build -ldflags '-s -w -X sigs.k8s.io/cluster-api/version.gitVersion=v$(CAPI_VERSION) -X sigs.k8s.io/cluster-api/version.gitMajor=$(word 1,$(subst ., ,$(CAPI_VERSION))) -X sigs.k8s.io/cluster-api/version.gitMinor=$(word 2,$(subst ., ,$(CAPI_VERSION)))' -o ../../bin/capi-manager sigs.k8s.io/cluster-api/core
	@cd kube/capi && from=$$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)/core/config && \
		for file in $$from/crd/bases/*.yaml $$from/webhook/manifests.yaml; do echo "---"; cat $$file; done > ../../bin/capi.yaml
	@touch bin/capi-manager

helm: bin/helm ## bin/helm alone: what the tests of the charts use

bin/helm: tools/helm/go.mod tools/helm/go.sum
	@echo "building bin/helm: Helm $(HELM_VERSION) from source; minutes the first time, then cached"
	@cd tools/helm && go build -ldflags '-s -w -X helm.sh/helm/v4/internal/version.version=v$(HELM_VERSION)' -o ../../bin/helm helm.sh/helm/v4/cmd/helm
	@touch bin/helm

# Without the clouds that were part of it: their SDKs are a good part of the build, and nothing here asks for them.
bin/kube-oldest: kube/oldest/go.mod kube/oldest/go.sum kube/main.go $(wildcard kube/oldest/*.go)
	@echo "building bin/kube-oldest: Kubernetes $(OLDEST_KUBE_VERSION) from source; minutes the first time, then cached"
	@cd kube/oldest && go build -v -tags providerless -ldflags '$(call kube_ldflags,$(OLDEST_KUBE_VERSION))' -o ../../bin/kube-oldest . $(counted)
	@touch bin/kube-oldest

# Where it is not connected to a cluster, it takes the Kubernetes that it is built with for it, as its releases do.
bin/helm3: tools/helm3/go.mod tools/helm3/go.sum
	@echo "building bin/helm3: Helm $(OLDEST_HELM_VERSION) from source; minutes the first time, then cached"
	@cd tools/helm3 && kube=$$(go list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2) && \
		go build -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=v$(OLDEST_HELM_VERSION) -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$$kube -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=$$kube" -o ../../bin/helm3 helm.sh/helm/v3/cmd/helm
	@touch bin/helm3

test: fetch vet ## everything but staticcheck: linters, then every test, on a real control plane; says how many ran
	@$(MAKE) -s page tools & others=$$!; $(MAKE) -s kube capi helm && wait $$others || { kill $$others 2>/dev/null || true; exit 1; }
	@$(MAKE) -s unit

# What is built later is downloaded while linters compute. Where that fails, the build says so.
fetch:
	@for module in kube kube/capi tools/helm; do (cd $$module && go mod download); done >/dev/null 2>&1 &

lint: vet page static ## formatting, go vet, staticcheck; eslint and tsc for the dashboard

vet:
	@echo "checking the format (gofumpt)"
	@bad=$$($(GOFUMPT) -l .); \
		if [ -n "$$bad" ]; then echo "not formatted; run: $(GOFUMPT) -w FILE"; echo "$$bad"; exit 1; fi
	@echo "go vet"
	@go vet ./...

# It reads all that we import once more, five minutes of a core, so it is not part of make test.
static:
	@echo "staticcheck"
	@$(TOOL) honnef.co/go/tools/cmd/staticcheck ./...

page: tools/javascript/node_modules/.package-lock.json
	@echo "eslint"
	@tools/javascript/node_modules/.bin/eslint --config tools/javascript/eslint.config.js tools/javascript/eslint.config.js internal/web/page
	@echo "tsc"
	@tools/javascript/node_modules/.bin/tsc --project tools/javascript

# The linters of the dashboard's JavaScript, as the lock file has them; node_modules is as old as its own copy of that.
tools/javascript/node_modules/.package-lock.json: tools/javascript/package.json tools/javascript/package-lock.json
	@$(call need,npm,nodejs npm)
	@echo "installing eslint and TypeScript (tools/javascript)"
	@cd tools/javascript && npm ci --no-fund --no-audit --loglevel=error >/dev/null && touch node_modules/.package-lock.json

# The AWS simulator is driven by the real aws command, alerts are tested by the real promtool, the dashboard by a real
# browser, and the race detector needs a C compiler; what has none gets Debian's.
tools:
	@$(call need,gcc,gcc libc6-dev)
	@$(call need,aws,awscli)
	@$(call need,promtool,prometheus)
	@$(call need,chromium,chromium fonts-dejavu-core)

# need sees to it that there is the command $(1), of Debian's packages $(2).
need = command -v $(1) >/dev/null || { \
		echo "installing $(1), which make test uses"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null; } || { \
		echo "make test needs $(1) (on Debian: apt-get install $(2))"; exit 1; }

# What runs at the same time in one process, under the race detector: the mirror, plans, the ledger, the workers of the engine. It is
# compiled once more for that, so it is a selection, with fewer random cases. What needs Kubernetes' client (RACE_CONTROL: the loops, the
# pages, moves, a whole controller beside another provider) or the AWS SDK (RACE_SOME, RACE_AWS) too is not part of make test, which has to be done in
# 45 minutes on a new computer.
RACE         := ./internal/ledger
RACE_CONTROL := ./internal/control ./internal/control/provision ./internal/control/repair ./internal/web
RACE_SOME    := ./internal/control/disruption ./internal/operator
RACE_AWS     := ./internal/control/pool ./internal/meter
RACE_RANDOM  := ./internal/state ./internal/engine/pack ./internal/engine/disrupt

# What asks something of the API server or of helm.
COMPAT := ./internal/local/plane ./test/validation ./test/conversion/... ./test/charts

# What plays whole clusters through mostly waits, so it begins early and has the rest run beside it. lint has vetted all of it.
unit: build capi helm tools
	@export KARPENTER_TEST_AWSCLI=1 KARPENTER_TEST_HELM=1 KARPENTER_TEST_PROMTOOL=1 KARPENTER_TEST_CHROMIUM=1; { \
		failed=0; \
		$(GOTEST) -json -vet off -p 3 -timeout 80m -ldflags '-s -w' ./test/e2e ./test/capi ./test/guides ./internal/cloud/... ./internal/control/... ./test/robust ./internal/sim/... ./... || failed=1; \
		$(MAKE) -s race-core || failed=1; \
		(cd kube && $(GOTEST) -json -timeout 60m -ldflags '-s -w' ./...) || failed=1; \
		exit $$failed; \
	} | go run ./tools/testsum

race-core:
	@failed=0; export CGO_ENABLED=1; \
		$(GOTEST) -race -json -vet off -p 2 -timeout 40m -run 'T17|S12|Trim|PropertyWorkers' $(RACE_RANDOM) -args -rapid.checks=10 || failed=1; \
		$(GOTEST) -race -json -vet off -p 2 -timeout 40m -skip 'TestAThousandNodes' $(RACE) || failed=1; \
		exit $$failed

race: ## what runs at the same time, under the race detector
	@{ $(MAKE) -s race-core || true; CGO_ENABLED=1 $(GOTEST) -race -json -p 2 -timeout 40m -skip 'TestAThousandNodes' $(RACE_CONTROL) $(RACE_AWS) || true; CGO_ENABLED=1 $(GOTEST) -race -json -p 2 -timeout 40m -run 'D1_|D52|S12|O53|L20|Fence|Tokens|LeaderProxy' $(RACE_SOME) || true; } | go run ./tools/testsum

# Kubernetes is built once more for it, so it is not part of make test.
compat: build bin/kube-oldest bin/helm3 ## the oldest Kubernetes and Helm that are supported: API, conversion, charts and rights, a scenario
	@export KARPENTER_KUBE_BINARY=$(CURDIR)/bin/kube-oldest KARPENTER_HELM_BINARY=$(CURDIR)/bin/helm3; { \
		failed=0; \
		$(GOTEST) -json -count 1 -timeout 80m -ldflags '-s -w' $(COMPAT) || failed=1; \
		$(GOTEST) -json -count 1 -timeout 80m -ldflags '-s -w' -run 'TestScenarios/walk-through' ./test/e2e || failed=1; \
		exit $$failed; \
	} | go run ./tools/testsum

generate: ## deep copies, CRDs, reference pages, charts: after a change to api/ or deploy/iam
	@$(GENERATE) object paths=./api/...
	@$(GENERATE) crd paths=./api/... output:crd:dir=./api/crds
	@go run ./tools/gendocs
	@go test ./test/charts -run 'Definitions|Template' -update

bench: karpenter ## packing and consolidation: speed and cost, against upstream Karpenter where its program has been built
	@go run ./test/bench

live: build controller ## the whole product against its bars: latency, memory, restart, four workloads; takes two hours
	@broken=0; \
		go run ./test/live --load both || broken=1; \
		go run ./test/live --after 0s --arrival slow --json bin/live-0s.json wide basic hostspread interference || broken=1; \
		exit $$broken

# How much of each make sim plays; make test plays a sample of it. Of 12,000 crash points that were asked for, 11,950 were come to.
SIM_CRASHES   ?= 12100
SIM_LAUNCHES  ?= 100000
SIM_SEEDS     ?= 1000
SIM_WORST     ?= 200
SIM_TWICE     ?= 1000

# What runs on a real control plane would take days to its full length, so make simlong plays a share of it.
SIM_WORKLOADS ?= 100
SIM_DAYS      ?= 30
SIM_REAL      ?= 0.05

# play runs a test, keeps what it says and shows how far it is; table is what it came to.
sim_play  = mkdir -p bin; : > bin/$@.log; play() { { echo "playing: $$*"; "$$@" 2>&1 || echo "failed: $$*"; } | tee -a bin/$@.log | \
	sed -un '/^playing: /p; /^=== RUN /p; /^--- /p; /^failed: /p; s/^ .*: \([0-9]* of [0-9]* played\)$$/    \1/p'; }
sim_table = echo "| test | played | breaches |"; echo "| --- | --- | --- |"; grep -o '| [Tw].* |$$' bin/$@.log; grep '^BenchmarkHour' bin/$@.log || true; \
	if grep -q '^failed: ' bin/$@.log; then echo "something was found: bin/$@.log"; exit 1; fi

sim: ## the controller in simulated clusters: crash points, launches, seeds, mutants; prints a table; takes an hour
	@$(sim_play); \
		play go test -count 1 -v -timeout 180m -run 'T2_|T3_|T29|TestWorst|S13' ./internal/sim -seeds $(SIM_SEEDS) -worst $(SIM_WORST) -twice $(SIM_TWICE) -crashes $(SIM_CRASHES) -launches $(SIM_LAUNCHES); \
		play go test -count 1 -v -timeout 60m ./internal/sim/mutants -seeds 25; \
		play go test -count 1 -run XXX -bench Hour -benchtime 1x ./internal/sim; \
		$(sim_table)

simlong: build capi ## days and whole workloads in simulated time, and the program itself under failures; takes many hours
	@$(sim_play); \
		play go test -count 1 -v -timeout 600m -run 'TestWorkloads|T26' ./internal/sim -workload-plays $(SIM_WORKLOADS) -days $(SIM_DAYS); \
		play go test -count 1 -v -timeout 600m -run 'T26' ./internal/sim -days $(SIM_DAYS) -spot; \
		play go test -count 1 -v -timeout 600m ./test/robust -long -share $(SIM_REAL); \
		play go test -count 1 -v -timeout 60m -run 'T1_' ./test/capi -kills 50; \
		play go -C kube test -count 1 -v -timeout 60m ./oracle -cases 10000; \
		$(sim_table)

image: ## the container image for amd64 and arm64, without a container engine: artifacts/image
	@go run ./tools/release -version $(VERSION) image

release: ## everything that users get, in dist: the same commit gives the same bytes; takes minutes
	@go run ./tools/release -version $(VERSION) -url $(RELEASE_URL) all

local: build ## a whole cluster on this computer
	@bin/karpenter local

clean: ## remove what was built
	rm -rf bin artifacts dist
