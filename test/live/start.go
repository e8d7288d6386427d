package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
)

const (
	barStart     = "start"
	startSeconds = 15.0
)

// start measures `karpenter local` in a new folder until it says that the cluster is ready, and looks whether it is.
func (b *bench) start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "karpenter-live-")
	if err != nil {
		return fmt.Errorf("make a folder for the cluster: %w", err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, b.karpenter, "local", "--kube", b.kube, "--dir", dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start karpenter local: %w", err)
	}
	lines := bufio.NewScanner(out)
	took := time.Duration(0)
	for took == 0 && lines.Scan() {
		if b.verbose {
			b.note("%s", lines.Text())
		}
		if strings.HasSuffix(lines.Text(), "the cluster is ready") {
			took = time.Since(began)
		}
	}
	if took == 0 {
		return errors.Join(errors.New("karpenter local ended before the cluster was ready"), cmd.Wait())
	}
	usable := poolReady(ctx, filepath.Join(dir, "admin.kubeconfig"))
	_ = cmd.Process.Signal(os.Interrupt)
	for lines.Scan() { // until it has ended
	}
	if err := errors.Join(usable, cmd.Wait()); err != nil {
		return err
	}
	b.say(figure{barStart, "s", took.Seconds(), startSeconds}, "karpenter local in a new folder, until its default pool is ready")
	return nil
}

func poolReady(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	kube, err := client.New(config, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	pool := &karpv1.NodePool{}
	if err := kube.Get(ctx, client.ObjectKey{Name: "default"}, pool); err != nil {
		return fmt.Errorf("reading the default pool: %w", err)
	}
	if !pool.StatusConditions().IsTrue(karpv1.ConditionReady) {
		return errors.New("karpenter local says that the cluster is ready, and its default pool is not")
	}
	return nil
}
