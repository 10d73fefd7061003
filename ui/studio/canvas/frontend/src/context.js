// The store of the canvas a component is drawn in.

import { createContext, useContext, useSyncExternalStore } from "react";

const StoreContext = createContext(null);

export const StoreProvider = StoreContext.Provider;
export const useStore = () => useContext(StoreContext);

/** A part of the store's view; the component is drawn again when that part changes. */
export function useView(select) {
  const store = useStore();
  return useSyncExternalStore(store.subscribe, () => select(store.view));
}
