import { LIMITS, VOLUME_STATUSES } from "../requests.ts";
import {
  bad,
  body,
  engine,
  id,
  label,
  list,
  missing,
  object,
  ok,
  operation,
  page,
  pathId,
  query,
  ref,
  text,
  whole,
} from "./parts.ts";

export const volumePaths = {
  "/volumes": {
    post: {
      ...operation("Submits a volume; a pipeline then creates it", {
        201: ok("The volume", ref("Volume")),
        400: bad(),
      }),
      requestBody: body(ref("NewVolume")),
    },
    get: {
      ...operation("Lists volumes, newest first", { 200: ok("A page", list("Volume")), 400: bad() }),
      parameters: [...page(), query("status", { enum: VOLUME_STATUSES }), query("name", label())],
    },
  },
  "/volumes/{id}": {
    parameters: [pathId()],
    get: operation("One volume", { 200: ok("The volume", ref("Volume")), 400: bad(), 404: missing() }),
    delete: operation("Asks for the volume to be deleted; works while it is held, too", {
      202: ok("The volume, on its way out; it is gone when GET answers 404", ref("Volume")),
      400: bad(),
      404: missing(),
    }),
  },
};

export const volumeSchemas = {
  NewVolume: object({
    name: {
      ...label(),
      pattern: "^(?!\\.{1,2}$)[^/]*$",
      description: `Jobs see the volume as a folder of this name, at most ${LIMITS.mostNameBytes} bytes`,
    },
    sizeGb: whole(1, LIMITS.mostGb),
  }),
  Volume: object({
    id: id(),
    name: text(),
    sizeGb: whole(1, LIMITS.mostGb),
    status: { enum: VOLUME_STATUSES },
    ...engine(),
  }),
};
