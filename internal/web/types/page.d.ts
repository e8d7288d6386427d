// What the dashboard makes of the API's documents. Only the type checker reads this; browsers get the page folder alone.

declare namespace ui {
  type Store = import('../page/store.js').Store;

  // Child is what may stand inside an element; what is nothing or false is left out.
  type Child = string | number | boolean | null | undefined | globalThis.Node | Child[];

  // Props are attributes, functions for events by their name with "on", and data for the dataset.
  type Props = Record<string, string | number | boolean | null | undefined | ((event: Event) => void) | Record<string, string>>;

  // PlainNode is a node as it comes, or a planned one.
  interface PlainNode extends Omit<api.LiveNode, 'podSlots' | 'why'> {
    mark?: 'new' | 'removed' | 'filled'; // what becomes of it
    moved?: Set<string>; // pods that move here
    daemons?: boolean;
  }

  // Node is one with its pods counted.
  interface Node extends PlainNode {
    count: number;
  }

  interface Pod {
    name: string;
    cpu: number;
    memory: number;
    flags: number;
  }

  type Found = {kind: 'node'; node: Node} | {kind: 'pod'; name: string};

  type Sections = Pick<api.LiveFleet, 'about' | 'totals' | 'savings' | 'pending' | 'next' | 'problems'>;

  // Change says what of the store has changed.
  type Change = {nodes: boolean; full: boolean} & {[section in keyof Sections]?: boolean};

  // Events are what the store tells.
  interface Events {
    change: Change;
    line: {state: string; text: string; why?: string};
    decision: api.Entry;
    missed: object;
    denied: {text: string};
  }

  // Context is what a view is made from: the part of the address after the hash.
  interface Context {
    store: Store;
    args: string[];
    query: URLSearchParams;
  }

  // View is a page while it is shown.
  interface View {
    title: string;
    element: HTMLElement;
    update?(change: Change): void;
    decision?(entry: api.Entry): void;
    missed?(): void;
    theme?(): void;
    close?(): void;
  }

  // Column of a table of rows T; one without a value cannot be sorted by.
  interface Column<T> {
    id: string;
    label: string;
    value?(row: T): string | number;
    cell(row: T): Child;
    numeric?: boolean;
    wide?: boolean;
  }

  interface Table<T> {
    caption: string;
    columns: Column<T>[];
    key(row: T): string;
    sort?: string;
    descending?: boolean;
    empty?: string;
  }

  interface Rect {
    x: number;
    y: number;
    w: number;
    h: number;
  }

  interface Box extends Rect {
    node: Node;
  }

  interface Group {
    name: string | null;
    nodes: Node[];
    y?: number;
  }

  // Hit is what is at a place of the picture.
  interface Hit {
    box: Box;
    rect?: number[];
    pod?: Pod;
    spare?: api.Spare;
  }

  interface PictureOptions {
    color: string;
    group: string;
  }

  // Stretch is a part of the time that a strip shows, in seconds since 1970.
  interface Stretch {
    from: number;
    to: number;
    kind: string;
    text: string;
    short?: string;
  }

  // Point of a chart: seconds since 1970 and a value.
  type Point = [number, number];
}
