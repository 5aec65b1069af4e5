/** The heights of the places of a list, as a Fenwick tree: every question costs its depth. */

export class Heights {
  /** @param {number} estimate the height of a place that was not measured */
  constructor(estimate) {
    this.estimate = estimate;
    this.count = 0;
    this.heights = new Float64Array(0);
    this.tree = new Float64Array(1);
  }

  /** @param {number} count how many places there are from now on, not fewer than before */
  grow(count) {
    if (count > this.heights.length) this.enlarge(count);
    else for (let at = this.count; at < count; at += 1) this.add(at, this.estimate);
    this.count = count;
  }

  /** @param {number} count */
  enlarge(count) {
    let capacity = 1024;
    while (capacity < count) capacity *= 2;
    const heights = new Float64Array(capacity);
    heights.set(this.heights.subarray(0, this.count));
    heights.fill(this.estimate, this.count, count);
    const tree = new Float64Array(capacity + 1);
    for (let at = 1; at <= capacity; at += 1) {
      tree[at] += heights[at - 1];
      const parent = at + (at & -at);
      if (parent <= capacity) tree[parent] += tree[at];
    }
    this.heights = heights;
    this.tree = tree;
  }

  /**
   * @param {number} at
   * @param {number} more
   */
  add(at, more) {
    this.heights[at] += more;
    for (let node = at + 1; node < this.tree.length; node += node & -node) this.tree[node] += more;
  }

  /**
   * @param {number} at
   * @param {number} height
   * @returns {boolean} whether it is another one
   */
  set(at, height) {
    const more = height - this.heights[at];
    if (at >= this.count || Math.abs(more) < 0.01) return false;
    this.add(at, more);
    return true;
  }

  /**
   * Where a place begins.
   *
   * @param {number} at
   */
  top(at) {
    let sum = 0;
    for (let node = Math.min(at, this.count); node > 0; node -= node & -node)
      sum += this.tree[node];
    return sum;
  }

  get total() {
    return this.top(this.count);
  }

  /**
   * The place that an offset is in.
   *
   * @param {number} offset
   */
  find(offset) {
    let at = 0;
    let left = Math.max(0, offset);
    for (let step = this.heights.length; step > 0; step >>= 1) {
      if (at + step < this.tree.length && this.tree[at + step] <= left) {
        at += step;
        left -= this.tree[at];
      }
    }
    return Math.max(0, Math.min(at, this.count - 1));
  }
}
