package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// spinWord, as the only argument, makes this program compute for nothing until its input ends.
const spinWord = "spin"

// spin computes for nothing until whoever started it is gone.
func spin() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for x := uint64(1); ; x = x*6364136223846793005 + 1442695040888963407 {
		if x == 0 {
			runtime.Gosched()
		}
	}
}

// burden keeps every core of the instance busy until the function that it returns is called.
func burden() (end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	var lines []io.Closer
	var children []*exec.Cmd
	end = func() {
		for i, child := range children {
			_ = lines[i].Close()
			_ = child.Wait()
		}
	}
	for range runtime.NumCPU() {
		child := exec.Command(self, spinWord)
		line, err := child.StdinPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			end()
			return nil, errors.Join(errors.New("keeping the instance busy"), err)
		}
		lines, children = append(lines, line), append(children, child)
	}
	return end, nil
}
