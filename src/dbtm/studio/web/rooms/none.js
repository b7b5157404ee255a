// A room without a model.
import { make } from "../viewer/dom.js";

export function noModel(place, title, note, ...commands) {
  place.append(make("header", {}, make("h1", {}, title)),
    make("section", { className: "card empty-state" }, make("h2", { className: "title" }, "No model for this room yet"),
      make("p", { className: "soft" }, `There is no packaged one. ${note} Train one, then open the studio with its run:`),
      make("pre", { tabIndex: 0 }, commands.join("\n"))));
  return null;
}
