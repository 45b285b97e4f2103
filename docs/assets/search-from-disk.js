// A browser starts no worker from the disk, and the site's search is one. Where the site is opened
// from the disk, its code runs in a hidden frame in place of a worker, with the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    onmessage = null;
    #inside = null;
    #unsent = [];

    constructor(url) {
      super();
      this.addEventListener("message", (event) => this.onmessage?.(event));
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      frame.addEventListener("load", () => this.#begin(frame.contentWindow, url), { once: true });
      document.documentElement.append(frame);
    }

    postMessage(data) {
      if (this.#inside === null) this.#unsent.push(data);
      else this.#tell(this.#inside, data);
    }

    // Later, as a worker's messages come: who sends one has not to expect an answer in the meantime.
    #tell(target, data) {
      setTimeout(() => target.dispatchEvent(new MessageEvent("message", { data })));
    }

    #begin(inside, url) {
      inside.postMessage = (data) => this.#tell(this, data);
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.#inside = inside;
        this.#unsent.splice(0).forEach((data) => this.postMessage(data));
      });
      inside.document.body.append(script);
    }
  };
}
